"""Averages, work to profile, steps, and a training step whose parts leave marks in the profile."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function


class Average:
    """What is used of an entry of key_averages()."""

    __slots__ = ("count", "cpu_time_total", "key", "self_cpu_time_total")

    def __init__(self, key: str, count: int, self_time: float, time: float) -> None:
        self.key, self.count = key, count
        self.self_cpu_time_total, self.cpu_time_total = self_time, time


def top_operators(module: Any, rows: list[Any], *arguments: Any) -> dict[str, Any]:
    """The top operators of such averages, and the keys of the list afterwards."""
    averages = [Average(*row) for row in rows]
    value = module.top_operators(averages, *arguments)
    left = [[a.key, a.count, a.self_cpu_time_total, a.cpu_time_total] for a in averages]
    return {"value": value, "left": left}


def profiled(module: Any, sizes: list[int], grad: bool, fails: bool, *arguments: Any) -> Any:
    """The operators of some work on tensors of these sizes, and how it was called."""
    modes: list[bool] = []
    raised, value = False, None

    def work() -> None:
        modes.append(torch.is_grad_enabled())
        for size in sizes:
            x = torch.ones(size)
            (x.sin() + x.outer(x).exp().sum()).cos()
        if fails:
            raise LookupError("the work broke")

    with torch.set_grad_enabled(grad):
        try:
            value = module.profile_operators(work, *arguments)
        except LookupError:
            raised = True
    stop()
    return {"value": value, "modes": modes, "raised": raised}


def stepped(module: Any, steps: int, *arguments: Any, **keywords: Any) -> dict[str, Any]:
    """The cycles of some steps, of which each one has a label and operators of its own number."""
    calls: list[Any] = []

    def step(i: int) -> None:
        calls.append(i)
        with record_function(f"work {i}"):
            x = torch.ones(3)
            for _ in range(i + 1):
                x = x.sin()
            if i % 3:
                x.cos()

    text = None
    try:
        value = module.profile_steps(step, steps, *arguments, **keywords)
    except ValueError as error:
        value, text = None, str(error)[:200]
    stop()
    return {"value": value, "calls": calls, "text": text}


def stop() -> None:
    """Stop a profiler that still runs, which would keep the next one from starting."""
    if torch._C._autograd._profiler_enabled():
        with contextlib.suppress(RuntimeError):
            torch._C._autograd._disable_profiler()


class Network(nn.Module):
    """A dropout and a layer, which leave marks in forward and backward pass."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight, self.runs = nn.Parameter(weight.clone()), 0

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        with record_function("mark model"):
            y = x @ self.weight
        if y.requires_grad:
            y.register_hook(mark)
        return y


def mark(gradient: Tensor) -> None:
    with record_function("mark gradient"):
        gradient.sum()


class Descent(torch.optim.SGD):
    """SGD that leaves a mark in the profile."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        with record_function("mark step"):
            super().step()


def squares(outputs: Tensor, targets: Tensor) -> Tensor:
    with record_function("mark loss"):
        return (outputs - targets).square().mean()


def network(module: Any, weight: Tensor, training: bool) -> Network:
    made = Network(weight).train(training)
    made.weight.grad = torch.full_like(weight, 3.0)
    return made


def optimizer(module: Any, model: Network, lr: float) -> Descent:
    return Descent(model.parameters(), lr=lr, momentum=0.5)


def loss_fn(module: Any) -> Any:
    return squares


def trained(
    module: Any, model: Network, sgd: Descent, batches: list[Any], watched: bool
) -> dict[str, Any]:
    """Losses, weights after each step, and the labels and marks of a profile with begin and end."""
    losses, weights, modes, spans = [], [], [], []
    for inputs, targets in batches:
        cpu = [ProfilerActivity.CPU]
        with profile(activities=cpu) if watched else contextlib.nullcontext() as profiler:
            loss = module.train_step(model, squares, sgd, inputs, targets)
        tensor = isinstance(loss, Tensor)
        losses.append([loss.detach().clone() if tensor else loss, tensor and loss.requires_grad])
        weights.append(model.weight.detach().clone())
        modes.append(model.training)
        if profiler is not None:
            spans.append(
                [[e.name, e.time_range.start, e.time_range.end] for e in profiler.events()]
            )
    keep = ("forward", "backward", "optimizer", "mark ")
    spans = [[span for span in events if span[0].startswith(keep)] for events in spans]
    report = {"losses": losses, "weights": weights, "modes": modes, "runs": model.runs}
    return {**report, "spans": spans}
