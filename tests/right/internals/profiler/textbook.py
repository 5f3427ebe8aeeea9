# right: a Counter for each cycle, keys that contain ProfilerStep, a step that switches to training mode
from collections import Counter
from typing import NamedTuple

from torch.profiler import ProfilerActivity, profile, record_function, schedule


class OperatorStats(NamedTuple):
    name: str
    calls: int
    self_cpu_time: float
    cpu_time: float


def top_operators(averages, n=10, sort_by="self_cpu_time_total"):
    if sort_by not in ("count", "self_cpu_time_total", "cpu_time_total"):
        raise ValueError("sort_by")
    if n < 1:
        raise ValueError("n")
    kept = [a for a in averages if "ProfilerStep" not in a.key]
    kept = sorted(kept, key=lambda a: getattr(a, sort_by), reverse=True)
    return [OperatorStats(a.key, a.count, a.self_cpu_time_total, a.cpu_time_total) for a in kept[:n]]


def profile_operators(f, n=10, sort_by="self_cpu_time_total"):
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        f()
    return top_operators(prof.key_averages(), n, sort_by)


def profile_steps(step, steps, wait=1, warmup=1, active=2, repeat=0):
    for name, value in (("wait", wait), ("warmup", warmup), ("active", active - 1), ("repeat", repeat)):
        if value < 0:
            raise ValueError(name)
    cycles = []

    def keep(prof):
        counts = Counter()
        for a in prof.key_averages():
            if "ProfilerStep" not in a.key:
                counts[a.key] += a.count
        cycles.append(counts)

    plan = schedule(wait=wait, warmup=warmup, active=active, repeat=repeat)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=keep) as prof:
        for i in range(steps):
            step(i)
            prof.step()
    return cycles[: steps // (wait + warmup + active)]


def train_step(model, loss_fn, optimizer, inputs, targets):
    optimizer.zero_grad()
    with record_function("forward"):
        outputs = model(inputs)
        loss = loss_fn(outputs, targets)
    with record_function("backward"):
        loss.backward()
    with record_function("optimizer"):
        optimizer.step()
    return loss.detach()
