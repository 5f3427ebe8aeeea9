"""A layer after two batches, and a module with one tensor of each kind."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def after(module: Any, batches: list[Tensor]) -> dict[str, Any]:
    """The tensors of a new layer after these batches, and the names in its state dict."""
    layer = module.RunningCenter(3)
    results = [layer(x).detach() for x in batches]
    return {
        "tensors": {name: getattr(layer, name) for name in ("running_mean", "num_samples")},
        "results": results,
        "buffers": sorted(name for name, _ in layer.named_buffers()),
        "saved": sorted(layer.state_dict()),
    }


class Encoder(nn.Module):
    """A module with one tensor of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)
        self.mask = torch.ones(2)


def model(module: Any) -> nn.Sequential:
    return nn.Sequential(nn.Tanh(), Encoder())
