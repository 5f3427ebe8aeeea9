# right: strides as a list, no check of a 0-d x, the position by indexing storage positions
import torch


def contiguous_strides(shape):
    if min(shape, default=0) < 0:
        raise ValueError(f"negative size in shape: {shape}")
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    return strides


def storage_index(x, index):
    if len(index) != x.dim():
        raise ValueError(f"index must have {x.dim()} entries")
    position = x.storage_offset()
    for dim, i in enumerate(index):
        if not -x.size(dim) <= i < x.size(dim):
            raise ValueError(f"index {i} is out of range in dimension {dim}")
        position += (i % x.size(dim)) * x.stride(dim)
    return position


def shares_storage(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def sliding_windows(x, size, step=1):
    n = x.size(-1)
    if not 0 < size <= n:
        raise ValueError(f"size={size} does not fit into {n} elements")
    if step <= 0:
        raise ValueError("step must be positive")
    shape = list(x.shape[:-1]) + [(n - size) // step + 1, size]
    strides = list(x.stride()[:-1]) + [x.stride(-1) * step, x.stride(-1)]
    return torch.as_strided(x, shape, strides, x.storage_offset())
