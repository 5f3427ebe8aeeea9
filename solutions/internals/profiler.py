"""Where the time goes: PyTorch's profiler, read as plain data.

`torch.profiler.profile` records every operator that runs in its block. Its `key_averages()` has one entry for
each operator, with two times: `cpu_time_total` is the whole time of an operator; `self_cpu_time_total` leaves
out the operators that it calls itself, so that self times add up to the time of the run.

Recording costs time, so a schedule records a few steps now and then.

All times are in microseconds. Real durations are never judged here.

Source: PyTorch documentation, torch.profiler; PyTorch Recipes, "PyTorch Profiler".

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

# begin solution: imports and constants
from torch.profiler import ProfilerActivity, profile, record_function, schedule

_SORTED_BY = ("count", "self_cpu_time_total", "cpu_time_total")
# end solution


class OperatorStats(NamedTuple):
    """One operator of a profile (given): its times are in microseconds, over all of its calls."""

    name: str
    calls: int
    self_cpu_time: float
    cpu_time: float


# begin solution: what two functions share
def _is_step(name: str) -> bool:
    """Whether this is an entry that the profiler itself makes around each step."""
    return name.startswith("ProfilerStep")


# end solution


def top_operators(
    averages: Iterable[Any], n: int = 10, sort_by: str = "self_cpu_time_total"
) -> list[OperatorStats]:
    """List the `n` operators with the most calls or time, the largest first.

    `averages` is the list that `profile.key_averages()` gives. Each entry has a name in `key`, its number of
    calls in `count`, and its times in `self_cpu_time_total` and `cpu_time_total`; use no other attribute of it.

    `sort_by` is one of "count", "self_cpu_time_total" and "cpu_time_total". Entries with the same value may
    come in any order. If there are fewer than `n`, all come.

    Entries whose key begins with "ProfilerStep", which the profiler puts around whole steps, are left out
    before the `n` are taken.

    Raises ValueError that names `sort_by` for any other value, or `n` if it is below 1.
    """
    # begin solution: check, leave the steps out, sort, take n
    if sort_by not in _SORTED_BY:
        raise ValueError(f"sort_by must be one of {', '.join(_SORTED_BY)}, got {sort_by!r}")
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    entries = [entry for entry in averages if not _is_step(entry.key)]
    entries.sort(key=lambda entry: getattr(entry, sort_by), reverse=True)
    return [
        OperatorStats(entry.key, entry.count, entry.self_cpu_time_total, entry.cpu_time_total)
        for entry in entries[:n]
    ]
    # end solution


def profile_operators(
    f: Callable[[], object], n: int = 10, sort_by: str = "self_cpu_time_total"
) -> list[OperatorStats]:
    """Run `f()` under the profiler, and list its top operators.

    `f` is called once, under PyTorch's profiler with the CPU's activity. The result is that of `top_operators`
    for its averages, with `n` and `sort_by`: one entry for each operator, whatever the shapes of its inputs
    were.
    """
    # begin solution: profile f, then take the top of its averages
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        f()
    return top_operators(profiler.key_averages(), n, sort_by)
    # end solution


def profile_steps(
    step: Callable[[int], object],
    steps: int,
    wait: int = 1,
    warmup: int = 1,
    active: int = 2,
    repeat: int = 0,
) -> list[dict[str, int]]:
    """Run `step(0)` to `step(steps - 1)`, each once, and count the operators of some of them.

    Steps go in cycles, as in `torch.profiler.schedule`: `wait` and `warmup` steps are not recorded, `active`
    steps are. With the defaults steps 2 and 3 are recorded, 6 and 7, and so on. There are at most `repeat`
    cycles, with 0 as many as fit; the steps after them run unrecorded.

    Returns a list with a dict for each complete cycle, in order: the number of calls (`count`) of every key in
    the averages of its active steps, without the keys that begin with "ProfilerStep". A cycle that the last
    step cuts short is left out, though the profiler calls `on_trace_ready` for it, too.

    After the block `key_averages()` knows only the last cycle: read each one in `on_trace_ready`, or use a
    profile of its own for each cycle.

    Raises ValueError that names `active` if it is below 1, or `wait`, `warmup` or `repeat` if it is negative,
    before any step.
    """
    # begin solution: check, run steps by a schedule, keep whole cycles
    for name, value, least in (
        ("wait", wait, 0),
        ("warmup", warmup, 0),
        ("active", active, 1),
        ("repeat", repeat, 0),
    ):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    cycles: list[dict[str, int]] = []

    def keep(profiler: torch.profiler.profile) -> None:
        averages = profiler.key_averages()
        cycles.append({entry.key: entry.count for entry in averages if not _is_step(entry.key)})

    plan = schedule(wait=wait, warmup=warmup, active=active, repeat=repeat)
    activities = [ProfilerActivity.CPU]
    with profile(activities=activities, schedule=plan, on_trace_ready=keep) as profiler:
        for i in range(steps):
            step(i)
            profiler.step()
    # `keep` is also called for a last cycle that is cut short.
    return cycles[: steps // (wait + warmup + active)]
    # end solution


def train_step(
    model: nn.Module,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    inputs: Tensor,
    targets: Tensor,
) -> Tensor:
    """Make one step of training, with labels that a profile shows.

    Clears old gradients, computes the loss, runs its backward pass and makes one step of the optimizer.
    `torch.profiler.record_function` sets three labels, each once, one after the other: "forward" around the
    model and `loss_fn`, "backward" around the backward pass, "optimizer" around `optimizer.step()`. The
    clearing may be inside a label or outside.

    Returns the loss, detached, a tensor of shape (). The step does the same without a profiler, in the mode in
    which the model is.
    """
    # begin solution: clear the gradients, then the three labeled parts
    optimizer.zero_grad()
    with record_function("forward"):
        loss = loss_fn(model(inputs), targets)
    with record_function("backward"):
        loss.backward()
    with record_function("optimizer"):
        optimizer.step()
    return loss.detach()
    # end solution
