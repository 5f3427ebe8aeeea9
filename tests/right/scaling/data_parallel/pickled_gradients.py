# right: all_gather_object for the gradients, _broadcast_coalesced-free synchronization by scatter, numpy, functools.partial, keyword arguments everywhere
from __future__ import annotations

import functools
import itertools
import math
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
from datetime import timedelta
from multiprocessing.connection import wait

import numpy as np
import torch
import torch.distributed as dist
from torch import nn


def launch(worker, world_size, *args):
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, got {world_size}")
    fork = multiprocessing.get_context("fork")
    processes, readers = [], {}
    done, all_done = fork.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        try:
            for rank in range(world_size):
                reader, writer = fork.Pipe(duplex=False)
                task = (worker, rank, world_size, args, folder, writer, done, all_done)
                process = fork.Process(target=_run_rank, args=task)
                process.start()
                writer.close()
                processes.append(process)
                readers[reader] = rank
            results = _collect(readers, processes)
            all_done.close()
            for process in processes:
                process.join(2.0)
            return results
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.join()
                process.close()
            for connection in (*readers, done, all_done):
                connection.close()


def _run_rank(worker, rank, world_size, args, folder, writer, done, all_done):
    all_done.close()
    try:
        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder}/store",
            rank=rank,
            world_size=world_size,
            timeout=timedelta(seconds=10.0),
        )
        message = pickle.dumps((True, worker(rank, world_size, *args)))
    except BaseException as error:
        message = pickle.dumps((False, _described(rank, error)))
    writer.send_bytes(message)
    done.poll(2.0)


def _described(rank, error):
    what = "".join(traceback.format_exception_only(error)).strip()
    here = _described.__code__.co_filename
    place = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == here]
    line = f"rank {rank} (line {place[-1].lineno}, in {place[-1].name}) raised {what}"
    return line + "\n\n" + "".join(traceback.format_exception(error))


def _collect(readers, processes):
    results = [None] * len(processes)
    waiting = dict(readers)
    while waiting:
        wait(list(waiting), timeout=0.2)
        failure = None
        for reader, rank in list(waiting.items()):
            alive = processes[rank].is_alive()
            if not reader.poll():
                if alive:
                    continue
                raise _silent_death(rank, processes[rank])
            try:
                succeeded, value = pickle.loads(reader.recv_bytes())
            except (EOFError, OSError):
                raise _silent_death(rank, processes[rank]) from None
            del waiting[reader]
            results[rank] = value
            if not succeeded and failure is None:
                failure = value
        if failure is not None:
            raise RuntimeError(failure)
    return results


def _silent_death(rank, process):
    process.join(2.0)
    return RuntimeError(f"rank {rank} ended without a word, exit code {process.exitcode}")


def shard(batch, rank, world_size):
    if int(world_size) < 1:
        raise ValueError("world_size should be 1 or more")
    if not (0 <= rank <= world_size - 1):
        raise ValueError("rank should be between 0 and world_size - 1")
    if batch.shape[0] // world_size == 0:
        raise ValueError("batch should have at least one row per rank")
    rows = np.array_split(np.arange(batch.shape[0]), world_size)[rank]
    return batch[rows[0] : rows[-1] + 1]


def wrap(model):
    return {True: nn.parallel.DistributedDataParallel, False: nn.DataParallel}[
        dist.is_available() and dist.is_initialized()
    ](model)


@torch.no_grad()
def average_gradients(model):
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError("call this under launch")
    own = {
        name: None if p.grad is None else p.grad.clone()
        for name, p in model.named_parameters()
        if p.requires_grad
    }
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, own)
    for name, p in model.named_parameters():
        if name in own:
            total = torch.zeros_like(p)
            for gradients in everyone:
                if gradients[name] is not None:
                    total += gradients[name]
            p.grad = total / len(everyone)


def train_step(model, loss_fn, optimizer, inputs, targets):
    with torch.enable_grad():
        optimizer.zero_grad()
        prediction = model(inputs)
        loss = loss_fn(prediction, targets)
        loss.backward()
        optimizer.step()
    return prediction.new_empty(inputs.shape[:1]).numel()


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


def report(throughputs, overheads):
    efficiency = scaling_efficiency(throughputs)
    first = [
        ("world size", "samples/s", "speed-up", "efficiency (%)"),
        ("---", "---", "---", "---"),
    ]
    for n in sorted(throughputs, key=int):
        ratio = throughputs[n] / throughputs[1]
        first.append(
            (f"{n:d}", f"{throughputs[n]:.1f}", f"{ratio:.2f}", f"{efficiency[n] * 1e2:.1f}")
        )
    second = [("overhead", "ms", "share (%)"), ("---", "---", "---")]
    total = float(np.sum(list(overheads.values())))
    for name, cost in overheads.items():
        share = cost / total * 100.0 if total > 0.0 else 0.0
        second.append((name, f"{cost * 1000:.3f}", f"{share:.1f}"))
    table = lambda rows: "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return table(first) + "\n\n" + table(second)
