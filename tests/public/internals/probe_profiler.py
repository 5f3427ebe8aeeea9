"""Averages, some work and steps to profile, and the operators in them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


class Average:
    """The used attributes of an entry of key_averages()."""

    def __init__(self, *row: Any) -> None:
        self.key, self.count, self.self_cpu_time_total, self.cpu_time_total = row


def ranked(module: Any, rows: list[Any], n: int, sort_by: str) -> list[Any]:
    """The names and numbers of the top operators for averages with these rows."""
    value = module.top_operators([Average(*row) for row in rows], n, sort_by)
    return [list(stats) for stats in value]


def profiled(module: Any) -> dict[str, int]:
    """The calls of each operator in a little work, from profile_operators."""

    def work() -> None:
        for size in (3, 4):
            torch.ones(size).sin().exp()

    return {stats.name: stats.calls for stats in module.profile_operators(work, 50)}


def stepped(module: Any, steps: int) -> Any:
    """The calls of sin in each cycle. Step i calls sin i * i times."""

    def step(i: int) -> None:
        for _ in range(i * i):
            torch.zeros(2).sin()

    return [cycle.get("aten::sin") for cycle in module.profile_steps(step, steps)]


def trained(module: Any) -> dict[str, Any]:
    """The loss, the weight after a step, and the beginnings and ends of its parts, in order."""
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
