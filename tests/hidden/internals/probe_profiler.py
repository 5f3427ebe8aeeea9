"""Averages, work to profile, steps, and a training step whose parts leave marks in the profile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

# --- top_operators --------------------------------------------------------------------------------


class Average:
    """An entry of key_averages(), with the attributes that may be used."""

    def __init__(self, *row: Any) -> None:
        self.key, self.count, self.self_cpu_time_total, self.cpu_time_total = row


def ranked(module: Any, rows: list[Any], *arguments: Any) -> Any:
    """Return the top operators of averages with these rows."""
    return module.top_operators([Average(*row) for row in rows], *arguments)


def averages_left(module: Any, rows: list[Any]) -> list[Any]:
    """Return the rows of a list of averages after a call."""
    averages = [Average(*row) for row in rows]
    module.top_operators(averages, 3, "count")
    return [list(vars(average).values()) for average in averages]


# --- profile_operators ----------------------------------------------------------------------------


def profiled(module: Any, names: list[str], sizes: list[int], *arguments: Any) -> dict[str, Any]:
    """Return the top operators of work that calls these operators, on tensors of these sizes."""

    def work() -> None:
        for size in sizes:
            x = torch.ones(size)
            for name in names:
                getattr(x, name)()

    stats = module.profile_operators(work, *arguments)
    times = [each.self_cpu_time for each in stats]
    own = [[each.name, each.calls] for each in stats if each.name.removeprefix("aten::") in names]
    return {"own": own, "number": len(stats), "sorted": times == sorted(times, reverse=True)}


def called(module: Any, seed: int, gradients_on: bool) -> list[dict[str, Any]]:
    """Return how profile_operators calls some work."""
    calls: list[dict[str, Any]] = []

    def work() -> None:
        calls.append({"grad mode": torch.is_grad_enabled(), "drawn": torch.rand(3)})

    torch.manual_seed(seed)
    with torch.set_grad_enabled(gradients_on):
        module.profile_operators(work)
    return calls


def error_comes_out(module: Any) -> bool:
    """Return whether an error in some work comes out."""

    def work() -> None:
        raise LookupError("the work broke")

    try:
        module.profile_operators(work)
    except LookupError:
        return True
    finally:
        stop()
    return False


def stop() -> None:
    """Stop a profiler that still runs, which would keep the next one from starting."""
    if torch._C._autograd._profiler_enabled():
        with contextlib.suppress(RuntimeError):
            torch._C._autograd._disable_profiler()


# --- profile_steps --------------------------------------------------------------------------------


def new_step(more: int, ran: list[Any]) -> Callable[[int], None]:
    """Make a step that records its runs. No attribute of it shows how many operators it calls."""

    def step(i: int) -> None:
        ran.append(i)
        with record_function(f"work {i}"):
            x = torch.ones(3)
            for _ in range(i + more):
                x = x.sin()

    return step


def stepped(module: Any, more: int, steps: int, schedule: dict[str, int]) -> dict[str, Any]:
    """Return which steps ran, and the counts of each cycle, also of the profiler's own entries."""
    ran: list[Any] = []
    try:
        cycles = module.profile_steps(new_step(more, ran), steps, **schedule)
    finally:
        stop()
    own = ("aten::sin", "aten::ones", "work ", "ProfilerStep")
    if isinstance(cycles, list) and all(isinstance(cycle, dict) for cycle in cycles):
        cycles = [{k: v for k, v in cycle.items() if str(k).startswith(own)} for cycle in cycles]
    return {"ran": ran, "cycles": cycles}


def refused_before_a_step(module: Any, steps: int, **schedule: int) -> None:
    """Call profile_steps, and turn a ValueError that comes after a step into another error."""
    ran: list[Any] = []
    try:
        module.profile_steps(new_step(1, ran), steps, **schedule)
    except ValueError:
        if ran:
            raise RuntimeError("steps ran before the arguments were refused") from None
        raise
    finally:
        stop()


# --- train_step -----------------------------------------------------------------------------------


def mark(part: str) -> None:
    """Leave a mark in the profile."""
    with record_function(f"{part} runs"):
        pass


def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss that leaves a mark, and that changes if outputs and targets are swapped."""
    mark("the loss")
    return (outputs - 2 * targets).square().mean()


class Marked(nn.Linear):
    """A linear layer with a hook that records its modes, and marks each run and each backward pass."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__(3, 2, bias=False)
        self.weight = nn.Parameter(weight.clone())
        self.weight.grad = torch.full_like(weight, 3.0)  # an old one
        self.modes: list[bool] = []
        self.register_forward_hook(self.note_run)

    def note_run(self, _: Any, inputs: Any, outputs: Tensor) -> None:
        self.modes.append(self.training)
        mark("the model")
        if outputs.requires_grad:
            outputs.register_hook(lambda _: mark("the backward pass"))


def new_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Make an optimizer whose step leaves a mark."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    optimizer.register_step_post_hook(lambda *_: mark("the step"))
    return optimizer


def trained(module: Any, start: Tensor, batches: list[Any], training: bool) -> dict[str, Any]:
    """Return the losses and weights of steps on these batches, and the mode in each run of the model."""
    model = Marked(start).train(training)
    optimizer = new_optimizer(model)
    losses, graphs, weights = [], [], []
    for inputs, targets in batches:
        loss = module.train_step(model, loss_fn, optimizer, inputs, targets)
        losses.append(loss.detach().clone() if isinstance(loss, Tensor) else loss)
        graphs.append(getattr(loss, "requires_grad", None))
        weights.append(model.weight.detach().clone())
    modes = [*model.modes, model.training]
    return {"losses": losses, "graphs": graphs, "weights": weights, "modes": modes}


def labeled(module: Any, start: Tensor, batches: list[Any]) -> list[list[str]]:
    """Return, for each step, the order in which labels begin and end and parts run."""
    model = Marked(start)
    optimizer = new_optimizer(model)
    steps = []
    for inputs, targets in batches:
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            module.train_step(model, loss_fn, optimizer, inputs, targets)
        moments = []
        for event in profiler.events():
            if event.name in ("forward", "backward", "optimizer"):
                moments.append((event.time_range.start, f"{event.name} begins"))
                moments.append((event.time_range.end, f"{event.name} ends"))
            if event.name.endswith(" runs"):
                moments.append((event.time_range.start, event.name))
        steps.append([words for _, words in sorted(moments)])
    return steps
