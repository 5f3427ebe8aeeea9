# right: a schedule of its own; NamedTuple made by a call; autograd.grad for the backward pass
from typing import NamedTuple

import torch
from torch.autograd.profiler import record_function
from torch.profiler import ProfilerAction, ProfilerActivity, profile

OperatorStats = NamedTuple(  # noqa: UP014 (the other way to make one)
    "OperatorStats", [("name", str), ("calls", int), ("self_cpu_time", float), ("cpu_time", float)]
)
KEYS = frozenset(("count", "self_cpu_time_total", "cpu_time_total"))


def top_operators(averages, n=10, sort_by="self_cpu_time_total"):
    if sort_by not in KEYS or n < 1:
        raise ValueError(f"bad sort_by {sort_by!r} or bad n {n}")
    left = {i: a for i, a in enumerate(averages) if not str(a.key).startswith("ProfilerStep")}
    result = []
    while left and len(result) < n:
        best = max(left, key=lambda i: getattr(left[i], sort_by))
        a = left.pop(best)
        own, total = a.self_cpu_time_total, a.cpu_time_total
        result.append(OperatorStats(name=a.key, calls=a.count, self_cpu_time=own, cpu_time=total))
    return result


def profile_operators(f, n=10, sort_by="self_cpu_time_total"):
    top_operators([], n, sort_by)
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as prof:
        f()
    return top_operators(list(prof.key_averages()), n, sort_by)


def profile_steps(step, steps, wait=1, warmup=1, active=2, repeat=0):
    if wait < 0:
        raise ValueError("wait must not be negative")
    if warmup < 0:
        raise ValueError("warmup must not be negative")
    if active <= 0:
        raise ValueError("active must be positive")
    if repeat < 0:
        raise ValueError("repeat must not be negative")
    length = wait + warmup + active
    cycles = steps // length if not repeat else min(repeat, steps // length)

    def plan(i):
        if i >= cycles * length or i % length < wait:
            return ProfilerAction.NONE
        if i % length < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if (i + 1) % length else ProfilerAction.RECORD_AND_SAVE

    result = []

    def ready(prof):
        counts = {}
        for a in prof.key_averages():
            if not a.key.startswith("ProfilerStep"):
                counts[a.key] = counts.get(a.key, 0) + a.count
        result.append(counts)

    with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=ready) as prof:
        for i in range(steps):
            step(i)
            prof.step()
    return result[:cycles]


def train_step(model, loss_fn, optimizer, inputs, targets):
    parameters = [p for p in model.parameters() if p.requires_grad]
    with record_function("forward"):
        loss = loss_fn(model(inputs), targets)
    with record_function("backward"):
        gradients = torch.autograd.grad(loss, parameters)
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = g
    with record_function("optimizer"):
        optimizer.step()
    return loss.detach()
