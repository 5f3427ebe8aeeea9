"""Averages, work to profile, steps, and a training step whose parts leave marks in the profile."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function


class Average:
    """What is used of an entry of key_averages()."""

    def __init__(self, *row: Any) -> None:
        self.key, self.count, self.self_cpu_time_total, self.cpu_time_total = row


def top_operators(module: Any, rows: list[Any], *arguments: Any) -> dict[str, Any]:
    """The top operators of such averages, and what the list holds afterwards."""
    averages = [Average(*row) for row in rows]
    value = module.top_operators(averages, *arguments)
    return {"value": value, "left": [list(vars(average).values()) for average in averages]}


def profiled(module: Any, names: Any, sizes: Any, grad: bool, fails: bool, *more: Any) -> Any:
    """What some work with these operators, on tensors of these sizes, gives, and how it was called."""
    modes, states, raised, value = [], [torch.get_rng_state()], True, None

    def work() -> None:
        modes.append(torch.is_grad_enabled())
        states.append(torch.get_rng_state())
        for size in sizes:
            x = torch.ones(size)
            for name in names:
                getattr(x, name)(*[x] * (name == "outer"))
        if fails:
            raise LookupError("the work broke")

    with torch.set_grad_enabled(grad), contextlib.suppress(LookupError):
        value = module.profile_operators(work, *more)
        raised = False
    stop()
    return {"value": value, "modes": modes, "states": states, "raised": raised}


def stepped(module: Any, more: int, steps: int, *arguments: Any, **keywords: Any) -> dict[str, Any]:
    """The cycles of some steps, of which each one has a label and operators by its number, and `more`."""
    calls: list[Any] = []

    def step(i: int) -> None:
        calls.append(i)
        with record_function(f"work {i}"):
            x = torch.ones(3)
            for _ in range(i + more):
                x = x.sin()
            if i % 3:
                x.cos()

    value, text = [], None
    try:
        value = module.profile_steps(step, steps, *arguments, **keywords)
    except ValueError as error:
        text = str(error)[:200]
    stop()
    if isinstance(value, list):
        value = [dict(cycle) if isinstance(cycle, dict) else cycle for cycle in value]
    return {"value": value, "calls": calls, "text": text}


def stop() -> None:
    """Stop a profiler that still runs, which would keep the next one from starting."""
    if torch._C._autograd._profiler_enabled():
        with contextlib.suppress(RuntimeError):
            torch._C._autograd._disable_profiler()


def mark(part: str) -> None:
    with record_function(f"mark {part}"):
        pass


def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
    mark("loss")
    return (outputs - 2 * targets).square().mean()


def trained(module: Any, start: Tensor, batches: Any, watched: bool) -> Any:
    """Losses, weights after each step, and the labels and marks of a profile with begin and end."""
    model = nn.Linear(3, 2, bias=False)
    model.weight = nn.Parameter(start.clone())
    model.weight.grad = torch.full_like(start, 3.0)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    runs, losses, weights, spans = 0, [], [], []
    cpu, keep = [ProfilerActivity.CPU], ("forward", "backward", "optimizer", "mark ")

    def ran(_: Any, __: Any, outputs: Tensor) -> None:
        nonlocal runs
        runs += 1
        mark("model")
        if outputs.requires_grad:
            outputs.register_hook(lambda _: mark("backward pass"))

    model.register_forward_hook(ran)
    sgd.register_step_post_hook(lambda *_: mark("step"))
    for inputs, targets in batches:
        with profile(activities=cpu) if watched else contextlib.nullcontext() as profiler:
            loss = module.train_step(model, loss_fn, sgd, inputs, targets)
        tensor = isinstance(loss, Tensor)
        losses.append([loss.detach().clone() if tensor else loss, tensor and loss.requires_grad])
        weights.append(model.weight.detach().clone())
        events = profiler.events() if profiler is not None else []
        labels = [e for e in events if e.name.startswith(keep)]
        spans.append([[e.name, e.time_range.start, e.time_range.end] for e in labels])
    return {"losses": losses, "weights": weights, "spans": spans, "runs": runs}
