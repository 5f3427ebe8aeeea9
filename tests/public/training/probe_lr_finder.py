"""Run the learning-rate finder on examples that can be followed by hand."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn


def one_weight(module: Any) -> dict[str, Any]:
    """A model with the single weight 1, whose loss is the square of its weight."""
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


def suggestion(module: Any, rates: Tensor, losses: Tensor) -> Any:
    return module.suggest_lr(module.LRRangeTest(rates, losses))


def figure(module: Any, rates: Tensor, losses: Tensor) -> dict[str, Any]:
    """Plot a result with a suggestion of 0.1, and read the figure."""
    drawn = module.plot_lr_range_test(module.LRRangeTest(rates, losses), 0.1)
    figure = isinstance(drawn, Figure)
    axes = drawn.axes if figure else []
    return {
        "type": "Figure" if figure else None if drawn is None else type(drawn).__name__,
        "axes": len(axes),
        "x scales": [each.get_xscale() for each in axes],
        "artists": sum(len(each.lines) + len(each.collections) for each in axes),
    }
