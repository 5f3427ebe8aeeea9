"""The rates of an optimizer with two groups, and a short training of one weight."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR


def rates(module: Any, steps: int, *arguments: Any) -> list[list[float]]:
    """The rates of groups with base rates 0.1 and 0.5, before and after each scheduler step."""
    groups = [{"params": [nn.Parameter(torch.zeros(1))], "lr": lr} for lr in (0.1, 0.5)]
    optimizer = torch.optim.SGD(groups)
    scheduler = module.warmup_cosine_scheduler(optimizer, *arguments)
    seen = [[group["lr"] for group in optimizer.param_groups]]
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        seen.append([group["lr"] for group in optimizer.param_groups])
    return seen


def training(module: Any, epochs: int) -> dict[str, Any]:
    """Train on two batches per epoch, with output = weight * 1, loss = mean(output) and base rate 2."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 10.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    scheduler = LambdaLR(optimizer, lambda step: (1.0, 0.5, 0.25, 0.0)[min(step, 3)])
    batches = [(torch.ones(3, 1), torch.zeros(3, 1))] * 2
    given = model, batches, lambda outputs, _: outputs.mean(), optimizer, scheduler
    return {"rates": module.train_with_schedule(*given, epochs), "weight": model.weight.item()}
