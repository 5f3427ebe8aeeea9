# right: draws with torch.rand and torch.randn, written with copy_ under a decorator; the loop counts the kernel
from __future__ import annotations

import torch
from torch import Tensor, nn


def fans(weight: Tensor) -> tuple[int, int]:
    sizes = list(weight.size())
    if len(sizes) <= 1:
        raise ValueError(f"weight: {len(sizes)} dimension(s), needs 2 or more")
    fan_in, fan_out = sizes[1], sizes[0]
    for size in sizes[2:]:
        fan_in *= size
        fan_out *= size
    return fan_in, fan_out


@torch.no_grad()
def xavier_uniform_(weight: Tensor, gain: float = 1.0) -> Tensor:
    a = gain * (6 / sum(fans(weight))) ** 0.5
    weight.copy_((2 * torch.rand(weight.shape, dtype=weight.dtype) - 1) * a)
    return weight


@torch.no_grad()
def kaiming_normal_(weight: Tensor) -> Tensor:
    weight.copy_(torch.randn_like(weight, memory_format=torch.contiguous_format))
    weight *= (2 / fans(weight)[0]) ** 0.5
    return weight


@torch.no_grad()
def init_weights(module: nn.Module) -> None:
    match module:
        case nn.Linear():
            xavier_uniform_(module.weight)
            _fill(module.bias, 0)
        case nn.Conv1d() | nn.Conv2d():
            kaiming_normal_(module.weight)
            _fill(module.bias, 0)
        case nn.Embedding():
            module.weight.copy_(torch.randn(module.weight.shape) * 0.02)
            if module.padding_idx is not None:
                module.weight[module.padding_idx].fill_(0)
        case nn.LayerNorm() | nn.BatchNorm1d() | nn.BatchNorm2d():
            _fill(module.weight, 1)
            _fill(module.bias, 0)


def _fill(parameter: nn.Parameter | None, value: float) -> None:
    if parameter is not None:
        parameter.fill_(value)
