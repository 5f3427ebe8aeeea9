# right: a class for the cycles; labels by contextlib; all devices; clears after the forward pass
import contextlib
import dataclasses
from typing import NamedTuple

from torch import profiler


class OperatorStats(NamedTuple):
    name: str
    calls: int
    self_cpu_time: float
    cpu_time: float

    @classmethod
    def of(cls, entry):
        return cls(entry.key, int(entry.count), float(entry.self_cpu_time_total), float(entry.cpu_time_total))


def top_operators(averages, n=10, sort_by="self_cpu_time_total"):
    if not isinstance(sort_by, str) or sort_by not in ["count", "self_cpu_time_total", "cpu_time_total"]:
        raise ValueError(f"sort_by={sort_by!r}")
    if n < 1:
        raise ValueError(f"n={n}")
    entries = sorted(averages, key=lambda e: getattr(e, sort_by))
    entries.reverse()
    return [OperatorStats.of(e) for e in entries if not e.key.startswith("ProfilerStep")][:n]


def profile_operators(f, n=10, sort_by="self_cpu_time_total"):
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(profiler.profile())
        f()
    return top_operators(run.key_averages(), n, sort_by)


@dataclasses.dataclass
class Cycles:
    length: int
    counts: list = dataclasses.field(default_factory=list)

    def __call__(self, run):
        # Called at the end too, in the middle of a cycle.
        if run.step_num % self.length == 0 and len(self.counts) < run.step_num // self.length:
            entries = run.key_averages()
            self.counts.append({e.key: e.count for e in entries if e.key[:12] != "ProfilerStep"})


def profile_steps(step, steps, wait=1, warmup=1, active=2, repeat=0):
    given = {"wait": wait, "warmup": warmup, "active": active - 1, "repeat": repeat}
    for name in given:
        if given[name] < 0:
            raise ValueError(f"{name} is too small")
    cycles = Cycles(wait + warmup + active)
    given["active"] = active
    with profiler.profile(schedule=profiler.schedule(**given), on_trace_ready=cycles) as run:
        i = 0
        while i < steps:
            step(i)
            run.step()
            i += 1
    return cycles.counts


def train_step(model, loss_fn, optimizer, inputs, targets):
    label = profiler.record_function
    with label("forward"):
        loss = loss_fn(model(inputs), targets)
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.grad = None
    with label("backward"):
        loss.backward()
    with label("optimizer"):
        optimizer.step()
    return loss.data
