"""A layer of two experts that always give the same output."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def example(module: Any, x: Tensor, k: int) -> Any:
    """The first feature of the outputs, if the experts give 10 and 20 and the router's scores are x."""
    layer = module.MoE(2, 2, k)
    with torch.no_grad():
        layer.router.weight.copy_(torch.eye(2))
        for number, expert in enumerate(layer.experts):
            expert.down.weight.zero_()
            expert.down.bias.fill_(10.0 * (number + 1))
    return layer(x)[0][:, 0].detach()
