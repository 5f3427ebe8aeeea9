# right: validation shared by functions, a clock read through a helper object, collectives for the slowest and the sum, logging
from __future__ import annotations

import contextlib
import logging
import math
import time
import torch
import torch.distributed as dist

from parallel import average_gradients, shard, train_step, wrap
from ranks import launch


logging.basicConfig(level=logging.INFO)
log = logging.getLogger("data_parallel")
OVERHEAD_NAMES = ("batch_splitting", "gradient_reduction", "parameter_synchronization")


def check_at_least(name, value, least):
    if value < least:
        raise ValueError(f"{name} is {value}, it must be at least {least}")


def check_enough_rows(name, tensor, world_size):
    check_at_least("world_size", world_size, 1)
    if tensor.shape[0] < world_size:
        raise ValueError(f"{name} has only {tensor.shape[0]} rows for world_size {world_size}")


@contextlib.contextmanager
def timed(clock, synchronize):
    reading = []
    if synchronize is not None:
        synchronize()
    begin = clock()
    yield reading
    if synchronize is not None:
        synchronize()
    reading.append(clock() - begin)


def throughput(step, steps=20, warmup=5, clock=time.perf_counter, synchronize=None):
    check_at_least("steps", steps, 1)
    check_at_least("warmup", warmup, 0)
    for _ in range(warmup):
        step()
    total = 0
    with timed(clock, synchronize) as elapsed:
        for _ in range(steps):
            total += step()
    if elapsed[0] <= 0:
        raise ValueError("clock did not move forward")
    return total / elapsed[0]


def scaling_efficiency(throughputs):
    if 1 not in list(throughputs):
        raise ValueError("throughputs lack the world size 1")
    for n, t in throughputs.items():
        if t <= 0 or not math.isfinite(t):
            raise ValueError(f"throughputs[{n}] = {t}")
    pairs = []
    for n, t in throughputs.items():
        speed_up = t / throughputs[1]
        pairs.append((n, speed_up / n))
    return dict(pairs)


def measure_overheads(model, inputs, world_size, clock=time.perf_counter):
    check_enough_rows("inputs", inputs, world_size)

    def worker(rank, size):
        actions = {}
        actions["batch_splitting"] = lambda: shard(inputs, rank, size)
        actions["gradient_reduction"] = lambda: average_gradients(model)
        actions["parameter_synchronization"] = lambda: synchronize(model)
        part = actions["batch_splitting"]()
        model(part).sum().backward()
        values = torch.zeros(3, dtype=torch.float64)
        for i, name in enumerate(OVERHEAD_NAMES):
            actions[name]()
            dist.barrier()
            with timed(clock, None) as elapsed:
                for _ in range(10):
                    actions[name]()
            values[i] = elapsed[0] / 10
        # The slowest rank: by a collective, it is what they are for.
        dist.all_reduce(values, op=dist.ReduceOp.MAX)
        return values.tolist()

    return dict(zip(OVERHEAD_NAMES, launch(worker, world_size)[0]))


def synchronize(model):
    for parameter in model.parameters():
        buffer = parameter.detach().clone()
        dist.broadcast(buffer, src=0)
        with torch.no_grad():
            parameter.copy_(buffer)


def benchmark(build_model, inputs, targets, loss_fn, world_sizes=(1, 2), steps=20, warmup=5):
    check_at_least("steps", steps, 1)
    check_at_least("warmup", warmup, 0)
    for n in world_sizes:
        check_enough_rows("inputs", inputs, n)
        check_enough_rows("targets", targets, n)

    def worker(rank, size):
        model = wrap(build_model())
        optimizer = torch.optim.SGD([{"params": model.parameters()}], lr=0.01)
        x = shard(inputs, rank, size)
        y = shard(targets, rank, size)
        dist.barrier()
        rate = throughput(lambda: train_step(model, loss_fn, optimizer, x, y), steps, warmup)
        total = torch.tensor(rate, dtype=torch.float64)
        dist.all_reduce(total)
        return total.item()

    rates = {}
    for n in world_sizes:
        rates[n] = launch(worker, n)[0]
        log.info("%d ranks: %.1f samples/s", n, rates[n])
    return rates
