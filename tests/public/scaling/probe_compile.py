"""Functions to compile, and a clock that moves when a function is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def backend(module: Any) -> list[Any]:
    """The counts of a backend after the graph of (x * 2).sum(), and the result of its callable."""

    def f(
        x: Tensor,
    ) -> tuple[Tensor]:  # a tuple, as in the graphs of torch.compile
        return ((x * 2).sum(),)

    counting = module.CountingBackend()
    x = torch.tensor([1.0, 2.0])
    run = counting(torch.fx.symbolic_trace(f), [x])
    ran = [*run(x)] if callable(run) else type(run).__name__
    return [counting.graphs, counting.operations, ran]


def broken(module: Any) -> Callable[[Tensor], Tensor]:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    return f


def timed(module: Any) -> Any:
    now = 0.0

    def f(seconds: list[float]) -> None:
        nonlocal now
        now += seconds.pop(0) if seconds else 0.0

    return module.first_and_later(f, [3.0, 0.5, 1.5], calls=3, clock=lambda: now)
