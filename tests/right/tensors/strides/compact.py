# right: plain and short; most of the wrong answers are changes of it
def contiguous_strides(shape):
    if any(n < 0 for n in shape):
        raise ValueError("shape has a negative size")
    strides = []
    stride = 1
    for n in reversed(shape):
        strides.insert(0, stride)
        stride *= max(n, 1)
    return tuple(strides)


def storage_index(x, index):
    if len(index) != x.dim():
        raise ValueError("index has the wrong number of entries")
    position = x.storage_offset()
    for i, n, stride in zip(index, x.shape, x.stride(), strict=False):
        if i < -n or i >= n:
            raise ValueError("index is out of range")
        position += (i + n if i < 0 else i) * stride
    return position


def shares_storage(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def sliding_windows(x, size, step=1):
    if x.dim() == 0:
        raise ValueError("x is 0-d")
    n = x.shape[-1]
    if size < 1 or size > n:
        raise ValueError("size is not in 1..n")
    if step < 1:
        raise ValueError("step is below 1")
    windows = (n - size) // step + 1
    stride = x.stride(-1)
    return x.as_strided((*x.shape[:-1], windows, size), (*x.stride()[:-1], step * stride, stride))
