# right: an OrderedDict and a defaultdict, shards made in the parent, pickled broadcasts, a reduction as the barrier, fractions
from __future__ import annotations

import collections
import math
import time
from fractions import Fraction
import torch
import torch.distributed as dist

from parallel import average_gradients, shard, train_step, wrap
from ranks import launch


def throughput(step, steps=20, warmup=5, clock=time.perf_counter, synchronize=None):
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if warmup < 0:
        raise ValueError(f"warmup must be at least 0, got {warmup}")
    for _ in range(warmup):
        step()
    if synchronize is not None:
        synchronize()
    start = clock()
    samples = 0
    for _ in range(steps):
        samples += step()
    if synchronize is not None:
        synchronize()
    elapsed = clock() - start
    if elapsed <= 0:
        raise ValueError("clock did not advance")
    return samples / elapsed


def scaling_efficiency(throughputs):
    if 1 not in throughputs:
        raise ValueError("throughputs has no entry for 1")
    for value in throughputs.values():
        if not math.isfinite(value) or value <= 0:
            raise ValueError(f"throughputs must be finite and positive, got {value}")
    one = Fraction(throughputs[1])
    return collections.OrderedDict(
        (n, float(Fraction(value) / (n * one))) for n, value in throughputs.items()
    )


def measure_overheads(model, inputs, world_size, clock=time.perf_counter):
    shard(inputs, 0, world_size)
    results = launch(_overheads_worker, world_size, model, inputs, clock)
    return {key: max(result[key] for result in results) for key in results[0]}


def _overheads_worker(rank, world_size, model, inputs, clock):
    def time_it(call):
        call()
        dist.all_reduce(torch.zeros(1))
        start = clock()
        for _ in range(10):
            call()
        return (clock() - start) / 10

    def broadcast():
        values = [p.detach() for p in model.parameters()]
        dist.broadcast_object_list(values, src=0)
        with torch.no_grad():
            for p, value in zip(model.parameters(), values):
                p.copy_(value)

    times = {"batch_splitting": time_it(lambda: shard(inputs, rank, world_size))}
    model(shard(inputs, rank, world_size)).sum().backward()
    times["gradient_reduction"] = time_it(lambda: average_gradients(model))
    times["parameter_synchronization"] = time_it(broadcast)
    return times


def benchmark(build_model, inputs, targets, loss_fn, world_sizes=(1, 2), steps=20, warmup=5):
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if warmup < 0:
        raise ValueError(f"warmup must be at least 0, got {warmup}")
    for n in world_sizes:
        shard(inputs, 0, n)
    results = collections.defaultdict(float)
    for n in world_sizes:
        xs = [shard(inputs, rank, n) for rank in range(n)]
        ys = [shard(targets, rank, n) for rank in range(n)]
        rates = launch(_benchmark_worker, n, build_model, xs, ys, loss_fn, steps, warmup)
        results[n] = sum(rates)
    return results


def _benchmark_worker(rank, world_size, build_model, inputs, targets, loss_fn, steps, warmup):
    model = wrap(build_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = inputs[rank], targets[rank]
    dist.all_reduce(torch.zeros(1))
    return throughput(lambda: train_step(model, loss_fn, optimizer, x, y), steps, warmup)
