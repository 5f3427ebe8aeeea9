# right: a profile of its own for each cycle; heapq; labels opened and closed by hand
from __future__ import annotations

import heapq
import operator
from typing import NamedTuple

import torch


class OperatorStats(NamedTuple):
    name: str
    calls: int
    self_cpu_time: float
    cpu_time: float


def top_operators(averages, n=10, sort_by="self_cpu_time_total"):
    allowed = {"count", "self_cpu_time_total", "cpu_time_total"}
    if sort_by not in allowed:
        raise ValueError(f"sort_by has to be one of {allowed}")
    if n <= 0:
        raise ValueError("n must be positive")
    entries = (a for a in averages if a.key[:12] != "ProfilerStep")
    best = heapq.nlargest(n, entries, key=operator.attrgetter(sort_by))
    fields = operator.attrgetter("key", "count", "self_cpu_time_total", "cpu_time_total")
    return [OperatorStats._make(fields(a)) for a in best]


def profile_operators(f, n=10, sort_by="self_cpu_time_total"):
    profiler = torch.profiler.profile(activities={torch.profiler.ProfilerActivity.CPU}, record_shapes=True)
    profiler.start()
    try:
        f()
    finally:
        profiler.stop()
    return top_operators(profiler.key_averages(), n=n, sort_by=sort_by)


def profile_steps(step, steps, wait=1, warmup=1, active=2, repeat=0):
    if active < 1:
        raise ValueError("active < 1")
    for name, value in dict(wait=wait, warmup=warmup, repeat=repeat).items():  # noqa: C408
        if value < 0:
            raise ValueError(f"{name} < 0")
    cycle = wait + warmup + active
    windows = steps // cycle
    if repeat:
        windows = min(windows, repeat)
    result = []
    done = 0
    for _ in range(windows):
        for _ in range(wait + warmup):
            step(done)
            done += 1
        with torch.autograd.profiler.profile() as prof:
            for _ in range(active):
                step(done)
                done += 1
        result.append({a.key: a.count for a in prof.key_averages() if not a.key.startswith("ProfilerStep")})
    for i in range(done, steps):
        step(i)
    return result


def train_step(model, loss_fn, optimizer, inputs, targets):
    label = torch.profiler.record_function("forward").__enter__()
    loss = loss_fn(model(inputs), targets)
    label.__exit__(None, None, None)
    model.zero_grad(set_to_none=False)
    label = torch.profiler.record_function("backward").__enter__()
    loss.backward()
    label.__exit__(None, None, None)
    label = torch.profiler.record_function("optimizer").__enter__()
    optimizer.step()
    label.__exit__(None, None, None)
    return loss.detach().clone()
