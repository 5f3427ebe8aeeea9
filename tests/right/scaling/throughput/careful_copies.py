# right: coalesced broadcasts, monitored barriers, seconds by way of a tensor, synchronizes more often than it must
from __future__ import annotations

import math
import time
import torch
import torch.distributed as dist

from parallel import average_gradients, shard, train_step, wrap
from ranks import launch


def throughput(step, steps=20, warmup=5, clock=time.perf_counter, synchronize=None):
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if warmup < 0:
        raise ValueError(f"warmup must be at least 0, got {warmup}")
    if synchronize is not None:
        synchronize()
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
    if synchronize is not None:
        synchronize()
    if elapsed <= 0:
        raise ValueError("clock did not advance")
    return samples / elapsed


def scaling_efficiency(throughputs):
    if 1 not in throughputs:
        raise ValueError("throughputs has no entry for 1")
    for value in throughputs.values():
        if not math.isfinite(value) or value <= 0:
            raise ValueError(f"throughputs must be finite and positive, got {value}")
    return {n: value / (n * throughputs[1]) for n, value in throughputs.items()}


def measure_overheads(model, inputs, world_size, clock=time.perf_counter):
    shard(inputs, 0, world_size)
    results = launch(_overheads_worker, world_size, model, inputs, clock)
    table = torch.tensor([list(result.values()) for result in results])
    return dict(zip(results[0], table.amax(dim=0).tolist()))


def _overheads_worker(rank, world_size, model, inputs, clock):
    def time_it(call):
        call()
        dist.monitored_barrier()
        start = clock()
        for _ in range(10):
            call()
        return (clock() - start) / 10

    def broadcast():
        tensors = [p.data for p in model.parameters()]
        dist._broadcast_coalesced(dist.group.WORLD, tensors, 1 << 20, 0)

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
    results = {}
    for n in world_sizes:
        rates = launch(_benchmark_worker, n, build_model, inputs, targets, loss_fn, steps, warmup)
        results[n] = sum(rates)
    return results


def _benchmark_worker(rank, world_size, build_model, inputs, targets, loss_fn, steps, warmup):
    model = wrap(build_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = shard(inputs, rank, world_size)
    y = shard(targets, rank, world_size)
    dist.monitored_barrier()
    return throughput(lambda: train_step(model, loss_fn, optimizer, x, y), steps, warmup)
