# right: an autograd Function whose mask is of the rounded numbers, channels moved to the end, a product before the scale, parameters
import torch
from torch import nn


def absmax_scale(x, axis=None):
    dims = [d for d in range(x.dim()) if d != axis]
    m = torch.maximum(x.amax(dims), -x.amin(dims)) / 127
    m[m == 0] = 1
    return m


def quantize(x, scale, axis=None):
    if axis is not None:
        return quantize(x.transpose(axis, -1), scale).transpose(axis, -1)
    return torch.clip(torch.floor(x * scale.reciprocal() + 0.5), min=-127, max=127).type(torch.int8)


def dequantize(q, scale, axis=None):
    if axis is None:
        return q.to(scale.dtype) * scale
    return (q.to(scale.dtype).transpose(axis, -1) * scale).transpose(axis, -1).contiguous()


class Fake(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, axis):
        s = scale if axis is None else scale.view([-1] + [1] * (x.dim() - axis - 1))
        ctx.save_for_backward(torch.round(x / s).abs() <= 127)
        return dequantize(quantize(x, scale, axis), scale, axis)

    @staticmethod
    def backward(ctx, g):
        (inside,) = ctx.saved_tensors
        return torch.where(inside, g, torch.zeros_like(g)), None, None


def fake_quantize(x, scale, axis=None):
    return Fake.apply(x, scale, axis)


class QuantizedLinear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.scale = nn.Parameter(absmax_scale(linear.weight.data, 0), requires_grad=False)
        q = quantize(linear.weight.data, self.scale.data, 0)
        self.weight = nn.Parameter(q, requires_grad=False)
        self.bias = linear.bias

    def forward(self, x):
        y = (x @ self.weight.T.to(x.dtype)) * self.scale
        return y if self.bias is None else y + self.bias
