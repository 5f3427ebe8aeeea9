# right: all_gather and a mean over the stack, a NamedTuple, names imported from torch.distributed, deep copies of the model in the ranks, prints, a main guard
from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
from datetime import timedelta
from math import isfinite
from multiprocessing.connection import wait
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import all_gather, barrier, broadcast, get_world_size, is_initialized
from torch.nn.parallel import DataParallel
from torch.nn.parallel import DistributedDataParallel as DDP

HAS_CUDA = torch.cuda.is_available()
SCRATCH = torch.FloatTensor(2, 2).zero_()


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


class Overheads(NamedTuple):
    batch_splitting: float
    gradient_reduction: float
    parameter_synchronization: float


def shard(batch, rank, world_size):
    if world_size < 1:
        raise ValueError(f"{world_size=} is not a world_size")
    if rank not in range(world_size):
        raise ValueError(f"{rank=} is not a rank")
    n = batch.shape[0]
    if n < world_size:
        raise ValueError(f"the batch is too small: {n} < {world_size}")
    # Where the part begins, if the remainder is dealt out from the front.
    bounds = [0]
    for r in range(world_size):
        bounds.append(bounds[-1] + (n - bounds[-1] + world_size - r - 1) // (world_size - r))
    index = torch.arange(bounds[rank], bounds[rank + 1])
    return batch[index]


def wrap(model):
    print("wrapping", type(model).__name__)
    return DDP(model, find_unused_parameters=True) if is_initialized() else DataParallel(model)


def average_gradients(model):
    if not is_initialized():
        raise RuntimeError("Default process group has not been initialized")
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        mine = p.grad.detach().clone() if p.grad is not None else p.detach().new_zeros(p.shape)
        everyone = [torch.empty_like(mine) for _ in range(get_world_size())]
        all_gather(everyone, mine)
        p.grad = torch.stack(everyone).mean(dim=0)


def train_step(model, loss_fn, optimizer, inputs, targets):
    """Uses autograd.grad and hands the gradients over: for wrapped models backward is needed."""
    model.zero_grad(set_to_none=False)
    optimizer.zero_grad(set_to_none=False)
    y = model(inputs)
    loss = loss_fn(y, targets)
    torch.autograd.backward([loss])
    optimizer.step()
    rows, *_ = inputs.shape
    return rows


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


def report(throughputs, overheads):
    eff = scaling_efficiency(throughputs)
    text = "| world size | samples/s | speed-up | efficiency (%) |\n"
    text += "| --- | --- | --- | --- |\n"
    for n in sorted(eff):
        text += "| %d | %.1f | %.2f | %.1f |\n" % (
            n,
            throughputs[n],
            throughputs[n] / throughputs[1],
            eff[n] * 100,
        )
    text += "\n| overhead | ms | share (%) |\n| --- | --- | --- |\n"
    whole = sum(overheads.values())
    for key in overheads:
        share = overheads[key] * 100 / whole if whole != 0 else 0.0
        text += "| %s | %.3f | %.1f |\n" % (key, overheads[key] * 1e3, share)
    return text


if __name__ == "__main__":
    torch.manual_seed(0)
    x, y = torch.randn(64, 8), torch.randn(64, 1)
    rates = benchmark(lambda: nn.Linear(8, 1), x, y, nn.MSELoss())
    print(report(rates, measure_overheads(nn.Linear(8, 1), x, 2)))
