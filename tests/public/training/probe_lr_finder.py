"""Run the learning-rate finder on examples that you can follow by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def one_weight(module: Any) -> dict[str, Any]:
    """The report on a model with the single weight 1, whose loss is the square of its weight."""
    model = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    one, zero = torch.ones(1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    loader = [(one, zero)]
    result = module.lr_range_test(
        model, optimizer, nn.functional.mse_loss, loader, lr_min=0.01, lr_max=1.0, steps=3
    )
    return {
        "learning_rates": getattr(result, "learning_rates", None),
        "losses": getattr(result, "losses", None),
        "weight": model.weight.item(),
        "lr": optimizer.param_groups[0]["lr"],
    }


def scripted(module: Any, script: list[float]) -> dict[str, Any]:
    """The report on a test whose batches have these losses. Only the model's middle part is in train mode."""
    inner = nn.Sequential(nn.Linear(1, 1).double())
    model = nn.Sequential(inner).eval()
    inner.training = True
    modules = list(model.modules())
    groups = [{"params": [inner[0].weight], "lr": 0.5}, {"params": [inner[0].bias], "lr": 0.25}]
    optimizer = torch.optim.SGD(groups, lr=0.5)
    during: list[list[bool]] = []
    model.register_forward_pre_hook(
        lambda own, _: during.append([each.training for each in own.modules()])
    )
    zero = torch.zeros(1, 1, dtype=torch.float64)
    loader = [(zero, torch.full_like(zero, loss)) for loss in script]
    result = module.lr_range_test(
        model,
        optimizer,
        lambda y, target: target.mean() + 0 * y.mean(),
        loader,
        0.01,
        1.0,
        len(script),
    )
    return {
        "losses": result.losses,
        "rates": len(result.learning_rates),
        "modes during": during,
        "modes after": [each.training for each in modules],
        "lrs": [group["lr"] for group in optimizer.param_groups],
    }


def suggestion(module: Any, rates: Tensor, losses: Tensor, *factor: float) -> Any:
    return module.suggest_lr(module.LRRangeTest(rates, losses), *factor)
