"""Averages, some work, and steps, with what they call."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


def ranked(module: Any, rows: list[Any], n: int, sort_by: str) -> list[Any]:
    """The names and numbers of the top operators of such averages."""
    keys = ("key", "count", "self_cpu_time_total", "cpu_time_total")
    averages = [types.SimpleNamespace(**dict(zip(keys, row, strict=True))) for row in rows]
    return [list(stats) for stats in module.top_operators(averages, n, sort_by)]


def profiled(module: Any) -> dict[str, int]:
    """The calls of each operator of a little work, as profile_operators says."""

    def work() -> None:
        for size in (3, 4):
            torch.ones(size).sin().exp()

    return {stats.name: stats.calls for stats in module.profile_operators(work, 50)}


def stepped(module: Any, steps: int) -> Any:
    """The calls of sin in each cycle, of which step i makes 2 to the power of i."""

    def step(i: int) -> None:
        for _ in range(2**i):
            torch.zeros(2).sin()

    return [cycle.get("aten::sin") for cycle in module.profile_steps(step, steps)]


def trained(module: Any) -> dict[str, Any]:
    """The loss, the weight after a step, and what begins and ends in order."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    model.weight.grad = torch.ones(1, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.25)
    x, y = torch.tensor([[2.0]]), torch.tensor([[5.0]])
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        loss = module.train_step(model, nn.functional.mse_loss, sgd, x, y)
    labels = ("forward", "backward", "optimizer")
    inside = {"aten::mse_loss": "the loss", "MseLossBackward0": "its gradient"}
    moments = [
        (e.time_range.start, e.name + " begins") for e in profiler.events() if e.name in labels
    ]
    moments += [(e.time_range.end, e.name + " ends") for e in profiler.events() if e.name in labels]
    moments += [(e.time_range.start, inside[e.name]) for e in profiler.events() if e.name in inside]
    return {
        "loss": loss.detach(),
        "detached": not loss.requires_grad,
        "weight": model.weight.detach(),
        "labels": [words for _, words in sorted(moments)],
    }
