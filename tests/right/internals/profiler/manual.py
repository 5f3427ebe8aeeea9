# start/stop by hand; Counter -> dict; stable sort ascending reversed; grads by autograd.grad; nested with forms
import collections, contextlib
import torch
from torch import profiler as tp

class OperatorStats(tuple):
    pass

from typing import NamedTuple
class OperatorStats(NamedTuple):
    name: str
    calls: int
    self_cpu_time: float
    cpu_time: float

KEYS = ["count", "self_cpu_time_total", "cpu_time_total"]

def top_operators(averages, n=10, sort_by=KEYS[1]):
    if not n > 0:
        raise ValueError("n = %d is below 1" % n)
    try:
        KEYS.index(sort_by)
    except ValueError:
        raise ValueError(f"sort_by must be one of {KEYS}") from None
    result = [e for e in averages]
    result.sort(key=lambda e: getattr(e, sort_by))
    result.reverse()
    stats = []
    for e in result:
        if e.key.startswith("ProfilerStep"):
            continue
        stats.append(OperatorStats(name=e.key, calls=int(e.count), self_cpu_time=float(e.self_cpu_time_total), cpu_time=float(e.cpu_time_total)))
        if len(stats) == n:
            break
    return stats

def profile_operators(f, n=10, sort_by=KEYS[1]):
    top_operators([], n, sort_by)
    p = tp.profile(activities=[tp.ProfilerActivity.CPU])
    p.start()
    try:
        f()
    finally:
        p.stop()
    return top_operators(p.key_averages(), n, sort_by)

def profile_steps(step, steps, wait=1, warmup=1, active=2, repeat=0):
    for name, value, low in [("active", active, 1), ("wait", wait, 0), ("warmup", warmup, 0), ("repeat", repeat, 0)]:
        if value < low:
            raise ValueError(f"{name} = {value}: at least {low}")
    cycle = wait + warmup + active
    done = []
    prof = None
    for i in range(steps):
        c, r = divmod(i, cycle)
        if r == wait + warmup and (repeat == 0 or c < repeat) and i + active <= steps:
            prof = tp.profile(activities=[tp.ProfilerActivity.CPU], acc_events=True)
            prof.__enter__()
        try:
            step(i)
        finally:
            if prof is not None and r == cycle - 1:
                prof.__exit__(None, None, None)
                counter = collections.Counter()
                for e in prof.key_averages():
                    if not e.key.startswith("ProfilerStep"):
                        counter[e.key] += e.count
                done.append(dict(counter))
                prof = None
    return done

def train_step(model, loss_fn, optimizer, inputs, targets):
    with contextlib.ExitStack() as stack:
        stack.enter_context(tp.record_function("forward"))
        outputs = model(inputs)
        loss = loss_fn(outputs, targets)
    with torch.profiler.record_function("backward"):
        for g in optimizer.param_groups:
            for p in g["params"]:
                p.grad = None
        torch.autograd.backward([loss])
    with torch.autograd.profiler.record_function("optimizer"):
        optimizer.step()
    return loss.data
