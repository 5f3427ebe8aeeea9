# right: pairs as complex numbers, multiplied by exp(i * angle); frequencies by exp and log
import math

import torch


def rope_angles(positions, dim, base=10000.0):
    if dim % 2:
        raise ValueError(f"an odd dim: {dim}")
    pairs = torch.arange(dim // 2).float()
    return torch.einsum("...,i->...i", positions.float(), torch.exp(pairs * (-2 * math.log(base) / dim)))


def apply_rope(x, angles):
    half = x.shape[-1] // 2
    pairs = torch.complex(x[..., :half].float(), x[..., half:].float())
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag), dim=-1).type_as(x)
