"""Blocks and a model with a plain list, for the examples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Times(nn.Module):
    """Multiply x by a factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def times(module: Any, *factors: float) -> list[nn.Module]:
    """A block for each factor."""
    return [Times(factor) for factor in factors]


def hiding(module: Any) -> nn.Module:
    """A model with plain containers of modules under two names, and a list of numbers under a third."""
    encoder, parts = nn.Module(), [nn.Linear(2, 2), nn.Linear(2, 2)]
    setattr(encoder, "layers", parts)  # noqa: B010 (mypy does not know this attribute)
    setattr(encoder, "widths", [2, 2])  # noqa: B010
    model = nn.ModuleDict({"encoder": encoder, "decoder": nn.ModuleList([nn.Linear(2, 2)])})
    setattr(model, "heads", {"left": nn.Linear(2, 2)})  # noqa: B010
    return model
