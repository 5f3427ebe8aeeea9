"""A small model with dropout, seen inside and after a block, and an inference tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def model(module: Any) -> nn.Sequential:
    """A model from x (n, 2) to sums (n, 1), in training mode except for its last dropout."""
    made = nn.Sequential(nn.Dropout(1.0), nn.Linear(2, 1, bias=False), nn.Dropout(0.5))
    made.load_state_dict({"1.weight": torch.ones(1, 2)})
    made[2].eval()
    return made


def modes_of(model: nn.Sequential) -> list[bool]:
    return [model.training, *(part.training for part in model), torch.is_grad_enabled()]


def block(module: Any, model: nn.Sequential) -> dict[str, list[bool]]:
    """The modes of the model and its parts, and grad mode, inside a block and after it."""
    with module.evaluating(model):
        inside = modes_of(model)
    return {"inside": inside, "after": modes_of(model)}


def ordinary_of(module: Any, x: Tensor, inside: bool) -> dict[str, Any]:
    """A report on ordinary for an inference tensor, in inference mode if `inside`, and for x itself."""
    with torch.inference_mode():
        marked = x.clone()
    with torch.inference_mode(inside):
        y = module.ordinary(marked)
    return {"values": y, "inference": y.is_inference(), "itself": module.ordinary(x) is x}
