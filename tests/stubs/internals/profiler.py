"""Where the time goes: PyTorch's profiler, read as plain data.

`torch.profiler.profile` records every operator that runs in its block: how often, and how long. Its
`key_averages()` adds this up, with one entry for each operator. Two times differ: `cpu_time_total` is all
of the time between begin and end of an operator, `self_cpu_time_total` leaves out the operators that it
calls itself. The self times of all operators add up to the whole; the total times count what is nested many
times.

Recording costs time itself, and the first steps of a training are slow for other reasons. So a schedule
records a few steps now and then: some that wait, some that warm up, some that are recorded, and again.

Real durations depend on the machine and are never judged here. All times are in microseconds, over all
calls.

Source: PyTorch documentation, torch.profiler; PyTorch Recipes, "PyTorch Profiler".
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class OperatorStats(NamedTuple):
    """One operator of a profile (given): its times are in microseconds, over all of its calls."""

    name: str
    calls: int
    self_cpu_time: float
    cpu_time: float


def top_operators(
    averages: Iterable[Any], n: int = 10, sort_by: str = "self_cpu_time_total"
) -> list[OperatorStats]:
    """List the `n` operators with the most calls or time, the largest first.

    `averages` is the list that `profile.key_averages()` gives. Each entry has a name in `key`, its number
    of calls in `count`, and its times in `self_cpu_time_total` and `cpu_time_total`; use no other attribute
    of it. The list stays as it was.

    `sort_by` is the attribute that decides: "count", "self_cpu_time_total" or "cpu_time_total". Entries
    with the same value may come in any order. If there are fewer than `n`, all come.

    Entries whose key begins with "ProfilerStep" are left out: the profiler puts them around whole steps,
    and they would always be on top. They do not count among the `n`. Nothing else is left out.

    Raises ValueError, naming the argument, for any other `sort_by` and for `n` below 1.
    """
    # TODO: check, leave the steps out, sort, take n.
    raise NotImplementedError("top_operators: check, leave the steps out, sort, take n")


def profile_operators(
    f: Callable[[], object], n: int = 10, sort_by: str = "self_cpu_time_total"
) -> list[OperatorStats]:
    """Run `f()` under the profiler, and list its top operators.

    `f` is called once, as it would run by itself (in the grad mode of the caller, say), under PyTorch's
    profiler with the CPU's activity. The result is that of `top_operators` for its averages, with `n` and
    `sort_by`: one entry for each operator, whatever the shapes of its inputs were. An exception of `f` is
    passed on.

    Free: the activity of other devices, `record_shapes`, stacks, what is printed, warnings of the profiler;
    whether an error of `n` or `sort_by` comes before or after the run.
    """
    # TODO: profile f, then take the top of its averages.
    raise NotImplementedError("profile_operators: profile f, then take the top of its averages")


def profile_steps(
    step: Callable[[int], object],
    steps: int,
    wait: int = 1,
    warmup: int = 1,
    active: int = 2,
    repeat: int = 0,
) -> list[dict[str, int]]:
    """Run `step(0)` to `step(steps - 1)`, each once, and count the operators of some of them.

    Steps go in cycles, as in `torch.profiler.schedule`: `wait` steps that are not recorded, `warmup` steps
    that are not recorded either, `active` steps that are. With the defaults steps 2 and 3 are recorded, 6
    and 7, and so on. There are at most `repeat` cycles, with 0 as many as fit; the steps after them run
    unrecorded.

    Returns a list with a plain dict for each complete cycle, in order: every key of the averages of exactly
    its active steps, with its number of calls (`count`). Keys that begin with "ProfilerStep" are left out.
    Calls that only the profiler makes, or its `step()`, may be in it or not. A cycle that the last step
    cuts short is left out; the profiler calls `on_trace_ready` for it all the same.

    After the block `key_averages()` knows the last cycle only: read each one in `on_trace_ready`. Instead
    of a schedule, a profile of its own for each cycle is as good.

    Raises ValueError, naming the argument, before any step for `active` below 1, and for a negative `wait`,
    `warmup` or `repeat`. `steps` is at least 0.
    """
    # TODO: check, run steps by a schedule, keep whole cycles.
    raise NotImplementedError("profile_steps: check, run steps by a schedule, keep whole cycles")


def train_step(
    model: nn.Module,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    inputs: Tensor,
    targets: Tensor,
) -> Tensor:
    """Make one step of training, with labels that a profile shows.

    Clears the gradients, also those that are left from before, and computes `loss_fn(model(inputs),
    targets)`, its backward pass and one step of the optimizer. Three labels are set by
    `torch.profiler.record_function`, each once, one after the other and not one in another: "forward"
    around the model and `loss_fn`, "backward" around the backward pass, "optimizer" around
    `optimizer.step()`. Where the clearing stands is free.

    Returns the loss, detached, a tensor of shape (). The mode of the model stays as it is. Without a
    profiler it runs just the same.
    """
    # TODO: clear the gradients, then the three labeled parts.
    raise NotImplementedError("train_step: clear the gradients, then the three labeled parts")
