# right: sizes multiplied as a tensor, positions by indexing, addresses and offsets
import torch


def contiguous_strides(shape):
    sizes = torch.tensor(list(shape), dtype=torch.int64)
    if (sizes < 0).any():
        raise ValueError(f"negative size in shape {shape}")
    behind = torch.cat([sizes[1:].clamp(min=1), torch.ones(min(len(shape), 1), dtype=torch.int64)])
    return tuple(behind.flip(0).cumprod(0).flip(0).tolist())


def storage_index(x, index):
    if len(index) != x.ndim:
        raise ValueError("index: one int a dimension")
    try:
        return x[tuple(index)].storage_offset()
    except IndexError as error:
        raise ValueError(f"index {index} is out of range") from error


def shares_storage(a, b):
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def sliding_windows(x, size, step=1):
    if x.ndim == 0:
        raise ValueError("x must have at least 1 dimension")
    if not 0 < size <= x.size(-1):
        raise ValueError(f"size {size} does not fit into {x.size(-1)} elements")
    if step <= 0:
        raise ValueError("step must be positive")
    starts = range(0, x.size(-1) - size + 1, step)
    shape = [*x.shape[:-1], len(starts), size]
    strides = [*x.stride()[:-1], x.stride(-1) * step, x.stride(-1)]
    return torch.as_strided(x, shape, strides, x.storage_offset())
