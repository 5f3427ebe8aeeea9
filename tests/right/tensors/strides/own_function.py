# right: a custom autograd Function whose backward adds the windows up; a shared storage by set_
import math

import torch


class Windows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, size, step):
        ctx.shape, ctx.size, ctx.step = x.shape, size, step
        windows = math.floor((x.shape[-1] - size) / step) + 1
        strides = x.stride()
        made = torch.empty(0, dtype=x.dtype)
        return made.set_(
            x.untyped_storage(),
            x.storage_offset(),
            (*x.shape[:-1], windows, size),
            (*strides[:-1], strides[-1] * step, strides[-1]),
        )

    @staticmethod
    def backward(ctx, grad):
        total = torch.zeros(ctx.shape, dtype=grad.dtype)
        for i in range(grad.shape[-2]):
            total[..., i * ctx.step : i * ctx.step + ctx.size] += grad[..., i, :]
        return total, None, None


def contiguous_strides(shape):
    assert_sizes(shape)
    return tuple(math.prod(max(n, 1) for n in shape[d + 1 :]) for d in range(len(shape)))


def assert_sizes(shape):
    if [n for n in shape if n < 0]:
        raise ValueError(f"Shape must not have negative sizes, but is {shape}")


def storage_index(x, index):
    index = list(index)
    if len(index) != len(x.shape):
        raise ValueError(f"Index: {len(index)} entries for {len(x.shape)} dimensions")
    result = x.storage_offset()
    for d in range(x.dim()):
        if index[d] < 0:
            index[d] += x.size(d)
        if not 0 <= index[d] < x.size(d):
            raise ValueError("an entry of the index is out of range")
        result = result + index[d] * x.stride(d)
    return result


def shares_storage(a, b):
    if a is b:
        return True
    return a.untyped_storage() == b.untyped_storage()


def sliding_windows(x, size, step=1):
    if x.dim() < 1:
        raise ValueError("cannot slide over x: it is 0-d")
    if size <= 0 or x.size(dim=-1) < size:
        raise ValueError(f"Size must be between 1 and {x.size(dim=-1)}")
    if step <= 0:
        raise ValueError("Step must be positive")
    return Windows.apply(x, size, step)
