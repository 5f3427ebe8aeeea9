# right: counts its cycles itself, clears gradients in the backward label, labels as decorators
import collections
import functools
import typing

import torch
import torch.profiler as tp


class OperatorStats(typing.NamedTuple):
    name: str
    calls: int
    self_cpu_time: float
    cpu_time: float


def check(**least):
    for name, (value, smallest) in least.items():
        if value < smallest:
            raise ValueError(f"{name}: {value} is below {smallest}")


def top_operators(averages, n=10, sort_by="self_cpu_time_total"):
    try:
        column = ["count", "self_cpu_time_total", "cpu_time_total"].index(sort_by) + 1
    except ValueError:
        raise ValueError(f"unknown sort_by {sort_by}") from None
    check(n=(n, 1))
    stats = [OperatorStats(a.key, a.count, a.self_cpu_time_total, a.cpu_time_total) for a in averages]
    stats = list(filter(lambda s: not s.name.startswith("ProfilerStep"), stats))
    stats.sort(key=lambda s: -s[column])
    del stats[n:]
    return stats


def profile_operators(f, n=10, sort_by="self_cpu_time_total"):
    with tp.profile(activities=[tp.ProfilerActivity.CPU], with_stack=False, profile_memory=True) as p:
        f()
    print(p.key_averages().table(row_limit=3))
    return top_operators(p.key_averages(), n, sort_by)


def profile_steps(step, steps, wait=1, warmup=1, active=2, repeat=0):
    check(wait=(wait, 0), warmup=(warmup, 0), active=(active, 1), repeat=(repeat, 0))
    recorded = []

    def ready(p):
        counts = collections.Counter()
        for event in p.events():
            if not event.name.startswith("ProfilerStep"):
                counts[event.name] += 1
        recorded.append((p.step_num, dict(counts)))

    plan = tp.schedule(wait=wait, warmup=warmup, active=active, repeat=repeat)
    with tp.profile(activities=[tp.ProfilerActivity.CPU], schedule=plan, on_trace_ready=ready) as p:
        for i in range(steps):
            step(i)
            p.step()
    cycle = wait + warmup + active
    complete = {}
    for number, counts in recorded:
        if number % cycle == 0 and number // cycle not in complete:
            complete[number // cycle] = counts
    return [complete[k] for k in sorted(complete)]


def train_step(model, loss_fn, optimizer, inputs, targets):
    @tp.record_function("forward")
    def forward():
        return loss_fn(model(inputs), targets)

    @tp.record_function("backward")
    def backward(loss):
        optimizer.zero_grad(set_to_none=True)
        loss.backward()

    loss = forward()
    backward(loss)
    tp.record_function("optimizer")(functools.partial(optimizer.step))()
    with torch.no_grad():
        return loss.detach()
