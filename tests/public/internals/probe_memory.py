"""Small pieces of work, a model with an optimizer, and layers that record their runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def lose(x: Tensor) -> None:
    """Save 60 tensors of 64 KiB, and drop the result of each before the next one."""
    for i in range(60):
        (torch.ones(16384) * i + x).sin()


WORK: dict[str, Callable[[Tensor, Tensor], object]] = {
    "x.exp()": lambda x, _: x.exp(),
    "x.sin() + x.cos()": lambda x, _: x.sin() + x.cos(),
    "x[0].sin()": lambda x, _: x[0].sin(),
    "x @ weight.T": lambda x, weight: x @ weight.T,
    "60 times sin": lambda x, _: lose(x[0, 0]),
}


def measured(module: Any, name: str, x: Tensor, weight: Tensor) -> Any:
    """The result of saved_bytes for some work on x and a weight. The weight is excluded."""
    parameters = [weight.requires_grad_()]
    return module.saved_bytes(WORK[name], x.requires_grad_(), weight, exclude=parameters)


def trained(module: Any) -> dict[str, int]:
    """The result of training_bytes for a model with a frozen layer, after one step of Adam."""
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    model[0].requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    result: dict[str, int] = module.training_bytes(model, optimizer)
    return result


class Double(nn.Linear):
    """A layer, y = 2 x, that records its runs."""

    def __init__(self, name: str, runs: list[str]) -> None:
        super().__init__(1, 1, bias=False)
        nn.init.constant_(self.weight, 2.0)
        self.name, self.runs = name, runs

    def forward(self, x: Tensor) -> Tensor:
        self.runs.append(self.name)
        return super().forward(x)


def passed(module: Any, x: Tensor, needs_gradient: bool) -> dict[str, Any]:
    """The runs of three layers, and the gradients. x may need a gradient or not."""
    runs: list[str] = []
    layers = [Double(name, runs) for name in ("first", "second", "third")]
    y = module.checkpointed_forward(layers, x.requires_grad_(needs_gradient))
    report: dict[str, Any] = {"output": y.detach(), "forward": list(runs)}
    runs.clear()
    if y.requires_grad:
        y.sum().backward()
    report["gradients"] = [None if y.grad is None else y.grad for y in (x, layers[0].weight)]
    return {**report, "backward": runs}
