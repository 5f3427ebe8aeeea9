# right: synchronization by scatter, numpy, functools.partial, itertools, keyword arguments everywhere
from __future__ import annotations

import functools
import itertools
import time
import numpy as np
import torch
import torch.distributed as dist

from parallel import average_gradients, shard, train_step, wrap
from ranks import launch


def throughput(step, steps=20, warmup=5, clock=time.perf_counter, synchronize=None):
    if steps < 1:
        raise ValueError(f"expected steps >= 1, got {steps}")
    if warmup < 0:
        raise ValueError(f"expected warmup >= 0, got {warmup}")
    collections = list(itertools.islice(iter(step, object()), warmup))
    del collections
    ready = synchronize if synchronize is not None else (lambda: None)
    ready()
    begin = clock()
    counts = list(itertools.islice(iter(step, object()), steps))
    ready()
    elapsed = clock() - begin
    if elapsed <= 0:
        raise ValueError("expected the clock to advance")
    return float(np.sum(counts) / elapsed)


def scaling_efficiency(throughputs):
    values = np.array(list(throughputs.values()), dtype=np.float64)
    if 1 not in throughputs or not np.isfinite(values).all() or (values <= 0).any():
        raise ValueError("throughputs need an entry for 1 and positive, finite values")
    sizes = np.array(list(throughputs), dtype=np.float64)
    return dict(zip(throughputs, (values / (sizes * throughputs[1])).tolist()))


def _timed(call, *, clock, times=10):
    call()
    dist.barrier()
    started = clock()
    for _ in itertools.repeat(None, times):
        call()
    return (clock() - started) / times


def _worker(rank, world_size, *, model, inputs, clock):
    timed = functools.partial(_timed, clock=clock)
    split = functools.partial(shard, batch=inputs, rank=rank, world_size=world_size)
    result = {"batch_splitting": timed(split)}
    model(split()).sum().backward()
    result["gradient_reduction"] = timed(functools.partial(average_gradients, model))
    result["parameter_synchronization"] = timed(
        lambda: [dist.broadcast(tensor=p.data, src=0) for _, p in model.named_parameters()]
    )
    return result


def measure_overheads(model, inputs, world_size, clock=time.perf_counter):
    shard(batch=inputs, rank=0, world_size=world_size)
    worker = functools.partial(_worker, model=model, inputs=inputs, clock=clock)
    results = launch(worker, world_size)
    return functools.reduce(lambda a, b: {k: max(a[k], b[k]) for k in a}, results)


def _rate(rank, world_size, *, build_model, inputs, targets, loss_fn, steps, warmup):
    model = wrap(model=build_model())
    step = functools.partial(
        train_step,
        model=model,
        loss_fn=loss_fn,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
        inputs=shard(batch=inputs, rank=rank, world_size=world_size),
        targets=shard(batch=targets, rank=rank, world_size=world_size),
    )
    dist.barrier()
    return throughput(step=step, steps=steps, warmup=warmup)


def benchmark(build_model, inputs, targets, loss_fn, world_sizes=(1, 2), steps=20, warmup=5):
    if steps < 1:
        raise ValueError(f"expected steps >= 1, got {steps}")
    if warmup < 0:
        raise ValueError(f"expected warmup >= 0, got {warmup}")
    for world_size, part in itertools.product(world_sizes, (inputs, targets)):
        shard(batch=part, rank=0, world_size=world_size)
    rate = functools.partial(
        _rate,
        build_model=build_model,
        inputs=inputs,
        targets=targets,
        loss_fn=loss_fn,
        steps=steps,
        warmup=warmup,
    )
    return {n: float(np.sum(launch(rate, n))) for n in world_sizes}
