# right: accumulate and sum, torch.Size as a result, a check by indexing a range
from itertools import accumulate
from operator import mul

import torch


def contiguous_strides(shape):
    sizes = list(shape)
    for size in sizes:
        if size < 0:
            raise ValueError("all entries of `shape` have to be >= 0")
    if len(sizes) == 0:
        return torch.Size([])
    products = accumulate((size or 1 for size in sizes[:0:-1]), mul, initial=1)
    return torch.Size(reversed(list(products)))


def storage_index(x, index):
    try:
        steps = [range(n)[i] * s for i, n, s in zip(index, x.shape, x.stride(), strict=True)]
    except (IndexError, ValueError):
        raise ValueError(f"index={tuple(index)} for a tensor of shape {tuple(x.shape)}") from None
    return sum(steps, start=x.storage_offset())


def shares_storage(a, b):
    first, second = (t.detach().untyped_storage() for t in (a, b))
    return first.data_ptr() == second.data_ptr() and first.nbytes() == second.nbytes()


def sliding_windows(x, size, step=1):
    problems = {
        "x has no dimension": x.dim() == 0,
        "size is out of range": x.dim() > 0 and not 1 <= size <= x.shape[-1],
        "step is too small": step < 1,
    }
    for message, wrong in problems.items():
        if wrong:
            raise ValueError(message)
    last = x.dim() - 1
    windows = 1 + (x.shape[last] - size) // step
    longer = x.unsqueeze(-1)  # a view with one dimension more, whose strides are then set
    strides = list(x.stride())
    strides[last] *= step
    return longer.as_strided((*x.shape[:last], windows, size), (*strides, x.stride(last)))
