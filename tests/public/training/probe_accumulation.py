"""A model with a weight (1, 2), one step of SGD, and batches without a length."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def model(module: Any) -> nn.Linear:
    made = nn.Linear(2, 1, bias=False)
    made.load_state_dict({"weight": torch.tensor([[1.0, 2.0]])})
    return made


def loss(module: Any) -> Any:
    return nn.functional.mse_loss


def epoch(module: Any, batches: list[Any], steps: int, *more: Any) -> dict[str, Any]:
    """The weight after an epoch of SGD with rate 0.5, and the result of train_epoch."""
    made = model(module)
    sgd = torch.optim.SGD(made.parameters(), lr=0.5)
    losses = module.train_epoch(made, iter(batches), nn.functional.mse_loss, sgd, steps, *more)
    return {"weight": made.weight.detach(), "losses": losses}
