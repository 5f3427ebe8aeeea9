"""Iterations of a scaler on given gradients, and one step of a model with one weight."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def iterated(module: Any, gradients: list[Tensor]) -> list[dict[str, Any]]:
    """The state after each iteration, with init_scale 8, growth_interval 2, and SGD with rate 1."""
    scaler = module.GradScaler(init_scale=8.0, growth_interval=2)
    weight = nn.Parameter(torch.zeros(2))
    sgd, reports = torch.optim.SGD([weight], lr=1.0), []
    for gradient in gradients:
        weight.grad = gradient
        stepped = scaler.step(sgd)
        scaler.update()
        left = {"stepped": stepped, "scale": scaler.get_scale()}
        reports.append({**left, "weight": weight.detach().clone()})
    return reports


def stepped(module: Any, x: Tensor, scale: float | None, max_norm: float | None) -> dict[str, Any]:
    """The weight after a step of SGD with rate 1, and the result of train_step."""
    model = nn.Linear(2, 1, bias=False)
    model.load_state_dict({"weight": torch.tensor([[1.0, 2.0]])})
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    scaler = None if scale is None else module.GradScaler(scale)
    given = model, nn.functional.l1_loss, sgd, x, torch.zeros(1, 1), scaler, max_norm
    return {"loss": module.train_step(*given), "weight": model.weight.detach()}
