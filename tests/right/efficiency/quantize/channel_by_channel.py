# right: a loop over channels, Python's numbers, a mask for the gradient, its own linear layer inside
import torch
from torch import nn


def absmax_scale(x, axis=None):
    if axis is not None:
        return torch.stack([absmax_scale(part) for part in x.unbind(axis)])
    top = float(x.detach().abs().max())
    return torch.tensor(top / 127 if top else 1.0, dtype=x.dtype, device=x.device)


def quantize(x, scale, axis=None):
    if axis is not None:
        parts = [quantize(part, s) for part, s in zip(x.unbind(axis), scale)]
        return torch.stack(parts, dim=axis)
    q = torch.clamp(x.detach(), -127 * scale, 127 * scale).div(scale).round_()
    return q.to(dtype=torch.int8)


def dequantize(q, scale, axis=None):
    if axis is not None:
        return torch.stack([dequantize(p, s) for p, s in zip(q.unbind(axis), scale)], dim=axis)
    return scale * q


def fake_quantize(x, scale, axis=None):
    y = dequantize(quantize(x, scale, axis), scale, axis)
    s = torch.ones_like(x) if axis is None else torch.ones_like(x).transpose(axis, -1)
    s = s * scale
    if axis is not None:
        s = s.transpose(axis, -1)
    mask = (x.abs() <= 127.5 * s).to(x.dtype)
    return x * mask + (y - x * mask).detach()


class QuantizedLinear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        scale = absmax_scale(linear.weight, 0)
        self.register_buffer("weight", quantize(linear.weight, scale, 0))
        self.register_buffer("scale", scale)
        self.register_buffer("bias", linear.bias.data if linear.bias is not None else None)

    def forward(self, x):
        w = self.weight * self.scale[:, None]
        y = torch.einsum("...i,oi->...o", x, w)
        if self.bias is not None:
            y = y + self.bias
        return y
