# older API: torch.autograd.profiler, one for each window; record_function objects entered by hand; clears afterwards too
import torch
import torch.autograd.profiler as P
from dataclasses import dataclass
import collections

OperatorStats = collections.namedtuple("OperatorStats", ["name", "calls", "self_cpu_time", "cpu_time"])
OperatorStats.__new__.__defaults__ = (0.0,)

def top_operators(averages, n=10, sort_by="self_cpu_time_total"):
    match sort_by:
        case "count" | "self_cpu_time_total" | "cpu_time_total":
            pass
        case _:
            raise ValueError(f"sort_by={sort_by!r}")
    if n < 1:
        raise ValueError(f"{n=}")
    table = {i: e for i, e in enumerate(averages)}
    best = []
    while table and len(best) < n:
        i = max(table, key=lambda i: getattr(table[i], sort_by))
        e = table.pop(i)
        if not e.key.startswith("ProfilerStep"):
            best += [OperatorStats(e.key, e.count, e.self_cpu_time_total, e.cpu_time_total)]
    return best

def profile_operators(f, n=10, sort_by="self_cpu_time_total"):
    with torch.profiler.profile(activities=torch.profiler.supported_activities()) as prof:
        f()
    return top_operators(list(prof.key_averages()), n, sort_by)

def profile_steps(step, steps, wait=1, warmup=1, active=2, repeat=0):
    assert steps >= 0
    if active < 1: raise ValueError("active < 1")
    if min(wait, warmup, repeat) < 0:
        raise ValueError("negative: " + ", ".join(k for k, v in {"wait": wait, "warmup": warmup, "repeat": repeat}.items() if v < 0))
    found = []
    length = wait + warmup + active
    i = 0
    cycle = 0
    while i < steps:
        if (repeat == 0 or cycle < repeat) and steps - i >= length:
            for _ in range(wait + warmup):
                step(i); i += 1
            with P.profile() as prof:
                for _ in range(active):
                    step(i); i += 1
            cycle += 1
            found.append({e.key: e.count for e in prof.key_averages()})
        else:
            step(i); i += 1
    return found

def train_step(model, loss_fn, optimizer, inputs, targets):
    optimizer.zero_grad(set_to_none=False)
    f = torch.profiler.record_function("forward")
    f.__enter__()
    try:
        loss = loss_fn(model(inputs), targets)
    finally:
        f.__exit__(None, None, None)
    with torch.profiler.record_function("backward") as b:
        loss.backward()
    with torch.profiler.record_function("optimizer") as o:
        optimizer.step()
        optimizer.zero_grad()
    return loss.detach_()
