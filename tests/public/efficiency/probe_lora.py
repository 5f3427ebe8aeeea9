"""A layer with the numbers of the example, and a model with names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def example(module: Any, x: Tensor, calls: list[str]) -> Any:
    """The output of the layer for x, after calls of these methods."""
    base = nn.Linear(2, 2, bias=False)
    layer = module.LoRALinear(base, 1, 2.0)
    with torch.no_grad():
        base.weight.copy_(torch.eye(2))
        layer.A.copy_(torch.tensor([[1.0, 1.0]]))
        layer.B.copy_(torch.tensor([[1.0], [-1.0]]))
    for call in calls:
        getattr(layer, call)()
    return layer(x).detach()


def example_names(module: Any) -> Any:
    """The parameters that require a gradient after add_lora."""
    model = nn.Module()
    model.first, model.inner = nn.Linear(2, 2), nn.Module()
    model.inner.first, model.inner.second = nn.Linear(2, 2), nn.Linear(2, 2)
    module.add_lora(model, ["first"], 1, 1.0)
    return sorted(name for name, each in model.named_parameters() if each.requires_grad)
