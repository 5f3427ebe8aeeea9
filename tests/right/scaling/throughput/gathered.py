# right: a NamedTuple, names imported from torch.distributed, deep copies of the model in the ranks, prints
from __future__ import annotations

import copy
import time
from math import isfinite
from typing import NamedTuple
import torch
from torch.distributed import barrier, broadcast

from parallel import average_gradients, shard, train_step, wrap
from ranks import launch


class Overheads(NamedTuple):
    batch_splitting: float
    gradient_reduction: float
    parameter_synchronization: float


def throughput(step, steps=20, warmup=5, clock=time.perf_counter, synchronize=None):
    if steps < 1:
        raise ValueError("steps")
    if warmup < 0:
        raise ValueError("warmup")
    if synchronize is None:
        synchronize = int
    samples = 0
    for i in range(-warmup, steps):
        if i == 0:
            synchronize()
            start = clock()
        n = step()
        if i >= 0:
            samples += n
    synchronize()
    stop = clock()
    if not stop > start:
        raise ValueError("clock")
    print("timed", samples, "samples")
    return samples / (stop - start)


def scaling_efficiency(throughputs):
    if throughputs.get(1) is None:
        raise ValueError("throughputs[1] is missing")
    if not all(isfinite(t) and t > 0.0 for t in throughputs.values()):
        raise ValueError("throughputs must be positive numbers")
    base = throughputs[1]
    result = {}
    for n in throughputs:
        perfect = n * base
        result[n] = throughputs[n] / perfect
    return result


def _seconds(clock, work):
    work()
    barrier()
    t0 = clock()
    [work() for _ in range(10)]
    t1 = clock()
    return (t1 - t0) / 10


def _overheads(rank, world_size, model, inputs, clock):
    model = copy.deepcopy(model)
    part = shard(inputs, rank, world_size)
    splitting = _seconds(clock, lambda: shard(inputs, rank, world_size))
    model.zero_grad()
    model(part).sum().backward()
    reduction = _seconds(clock, lambda: average_gradients(model))
    with torch.no_grad():
        sync = _seconds(clock, lambda: [broadcast(p, 0) for p in model.parameters()])
    return Overheads(splitting, reduction, sync)


def measure_overheads(model, inputs, world_size, clock=time.perf_counter):
    shard(inputs, world_size - 1, world_size)
    ranks = launch(_overheads, world_size, model, inputs, clock)
    return Overheads(*map(max, zip(*ranks)))._asdict()


def _train(rank, world_size, build_model, inputs, targets, loss_fn, steps, warmup):
    model = wrap(build_model())
    optimizer = torch.optim.SGD(params=model.parameters(), lr=0.01, momentum=0.0)
    inputs = shard(inputs, rank, world_size)
    targets = shard(targets, rank, world_size)
    barrier()
    return throughput(
        lambda: train_step(model, loss_fn, optimizer, inputs, targets), steps, warmup=warmup
    )


def benchmark(build_model, inputs, targets, loss_fn, world_sizes=(1, 2), steps=20, warmup=5):
    assert callable(build_model)
    if steps < 1:
        raise ValueError("steps is below 1")
    if warmup < 0:
        raise ValueError("warmup is below 0")
    [shard(inputs, n - 1, n) for n in world_sizes]
    out = dict.fromkeys(world_sizes, 0.0)
    for n in world_sizes:
        for rate in launch(_train, n, build_model, inputs, targets, loss_fn, steps, warmup):
            out[n] += rate
    return out
