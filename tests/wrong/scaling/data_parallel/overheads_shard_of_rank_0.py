# wrong: every rank times rank 0's shard | caught by: test_overheads_calls | told: another rank
"""Data parallelism: how fast it goes, how well it scales, and what it costs.

In data-parallel training every process (a *rank*) holds a replica of the model. Each step, the
batch is cut into one part per rank, each rank runs forward and backward on its own part, the
gradients are averaged over the ranks, and all of them take the same optimizer step. Because the
mean of the parts' mean gradients is the gradient of the whole batch's mean loss (for parts of
equal size), the replicas stay equal and learn exactly what one process would:

    grad L(batch) = 1/W * sum over ranks r of grad L(part_r)

What you gain is throughput, T_W samples per second on W ranks. What you hope for is W * T_1; how
much of the hope comes true is the scaling efficiency

    E_W = T_W / (W * T_1)

and what is missing went into overheads: splitting batches, reducing gradients, keeping parameters
in step. Here you write all of it and measure it.

The ranks are processes on this machine's CPU that talk through gloo, PyTorch's CPU backend, so
that it works anywhere (but Windows, which cannot fork). Models stay on the CPU. On a cluster of
GPUs the same code runs over NCCL; only the numbers get bigger. Nobody grades how fast your machine
is: the tests bring their own clocks.

Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training",
sections 2 and 3.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")


# ---- given: launch, and what it is made of -------------------------------------------------------
# It is complete. You call `launch`; you need not read the rest, but it is worth it one day.

_JOIN_SECONDS = 10.0  # how long a rank waits for another in a collective before it gives up
_LINGER_SECONDS = 2.0  # how long a finished rank stays for the others


def launch(worker: Callable[..., T], world_size: int, *args: Any) -> list[T]:
    """Run `worker(rank, world_size, *args)` in `world_size` new processes; given, complete.

    The processes are forks of this one: each begins with a copy of everything in memory (the
    worker may be a closure, `args` need not pickle), and nothing that it changes is seen here or
    by another rank. Before `worker` runs they join one gloo process group, so that it can call the
    collectives of `torch.distributed`. Each rank computes with one thread.

    Args:
        worker: called once in each rank; what it returns must pickle, and may be large.
        world_size: the number of ranks, at least 1.
        *args: passed on to every rank.

    Returns:
        What each rank's worker returned, in the order of the ranks.

    Raises:
        ValueError: `world_size` is below 1.
        RuntimeError: a rank raised an exception (the message holds its traceback), or ended
            without a word. The other ranks are ended.
    """
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, got {world_size}")
    fork = multiprocessing.get_context("fork")
    processes: list[ForkProcess] = []
    readers: dict[Connection, int] = {}
    done, all_done = fork.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        try:
            for rank in range(world_size):
                reader, writer = fork.Pipe(duplex=False)
                # A rank must not hold `all_done`, whose closing tells it that all are done.
                task = (worker, rank, world_size, args, folder, writer, done, all_done)
                process = fork.Process(target=_run_rank, args=task)
                process.start()
                # Only the rank itself holds its writing end now: if it dies, we read the end.
                writer.close()
                processes.append(process)
                readers[reader] = rank
            results = _collect(readers, processes)
            all_done.close()
            for process in processes:
                process.join(_LINGER_SECONDS)
            return results
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.join()
                process.close()
            for connection in (*readers, done, all_done):
                connection.close()


def _run_rank(
    worker: Callable[..., object],
    rank: int,
    world_size: int,
    args: tuple[Any, ...],
    folder: str,
    writer: Connection,
    done: Connection,
    all_done: Connection,
) -> None:
    """Be one rank: join the group, work, send the result or the error, wait for the others."""
    all_done.close()
    try:
        # One thread a rank: ranks that fight for cores would measure the fight. It also keeps
        # clear of OpenMP, whose threads do not survive a fork.
        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder}/store",
            rank=rank,
            world_size=world_size,
            timeout=timedelta(seconds=_JOIN_SECONDS),
        )
        # Plain pickle: multiprocessing's own would send tensors as handles that die with the rank.
        message = pickle.dumps((True, worker(rank, world_size, *args)))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs in the parent
        message = pickle.dumps((False, _described(rank, error)))
    writer.send_bytes(message)
    # A rank that leaves at once would break the connections of ranks that are still joining.
    done.poll(_LINGER_SECONDS)


def _described(rank: int, error: BaseException) -> str:
    """One line about an exception in a rank, and its traceback below."""
    what = "".join(traceback.format_exception_only(error)).strip()
    here = _described.__code__.co_filename
    place = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == here]
    line = f"rank {rank} raised {what} (line {place[-1].lineno}, in {place[-1].name})"
    return line + "\n\n" + "".join(traceback.format_exception(error))


def _collect(readers: Mapping[Connection, int], processes: Sequence[ForkProcess]) -> list[Any]:
    """Read the ranks' results as they come; raise for a rank that failed or died."""
    results: list[Any] = [None] * len(processes)
    waiting = dict(readers)
    while waiting:
        # A pipe that a rank's own child holds open does not end with the rank: look again anyway.
        wait(list(waiting), timeout=0.2)
        failure = None
        for reader, rank in list(waiting.items()):
            alive = processes[rank].is_alive()  # before poll: what it has sent by now, we see
            if not reader.poll():
                if alive:
                    continue
                raise _silent_death(rank, processes[rank])
            try:
                received = pickle.loads(reader.recv_bytes())  # noqa: S301 - from our own fork
            except (EOFError, OSError):
                raise _silent_death(rank, processes[rank]) from None
            del waiting[reader]
            succeeded, value = received
            results[rank] = value
            if not succeeded and failure is None:
                failure = value
        # Only now, after the pass: a rank whose neighbor died complains, too, of a lost connection.
        if failure is not None:
            raise RuntimeError(failure)
    return results


def _silent_death(rank: int, process: ForkProcess) -> RuntimeError:
    process.join(_LINGER_SECONDS)
    return RuntimeError(f"rank {rank} ended without a word, exit code {process.exitcode}")


# ---- yours: everything below ---------------------------------------------------------------------


import functools
import itertools
import math
import operator
from collections import OrderedDict
from contextlib import contextmanager

import numpy as np


def shard(batch: Tensor, rank: int, world_size: int) -> Tensor:
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, got {world_size}")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be in 0..{world_size - 1}, got {rank}")
    if len(batch) < world_size:
        raise ValueError(f"batch has fewer rows ({len(batch)}) than ranks")
    size, extra = divmod(len(batch), world_size)
    start = rank * size + min(rank, extra)
    return batch[start : start + size + (rank < extra)]


def wrap(model: nn.Module) -> nn.Module:
    if dist.is_available() and dist.is_initialized():
        return nn.parallel.DistributedDataParallel(model)
    return nn.DataParallel(model)


def average_gradients(model: nn.Module) -> None:
    if not dist.is_initialized():
        raise RuntimeError("average_gradients needs a process group")
    world_size = dist.get_world_size()
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad)
        parameter.grad /= world_size


def train_step(
    model: nn.Module,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    inputs: Tensor,
    targets: Tensor,
) -> int:
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return inputs.shape[0]


def throughput(
    step: Callable[[], int],
    steps: int = 20,
    warmup: int = 5,
    clock: Callable[[], float] = time.perf_counter,
    synchronize: Callable[[], object] | None = None,
) -> float:
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


def scaling_efficiency(throughputs: Mapping[int, float]) -> dict[int, float]:
    if 1 not in throughputs:
        raise ValueError("throughputs has no entry for 1")
    for n, value in throughputs.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"throughputs[{n}] is {value}")
    return {n: value / (n * throughputs[1]) for n, value in throughputs.items()}


def measure_overheads(
    model: nn.Module,
    inputs: Tensor,
    world_size: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    shard(inputs, 0, world_size)
    ranks = launch(_overheads, world_size, model, inputs, clock)
    names = ("batch_splitting", "gradient_reduction", "parameter_synchronization")
    return {name: max(times[i] for times in ranks) for i, name in enumerate(names)}


def _seconds(call, clock):
    call()
    dist.barrier()
    start = clock()
    for _ in range(10):
        call()
    return (clock() - start) / 10


def _overheads(rank, world_size, model, inputs, clock):
    splitting = _seconds(lambda: shard(inputs, 0, world_size), clock)
    model.zero_grad()
    model(shard(inputs, rank, world_size)).sum().backward()
    reduction = _seconds(lambda: average_gradients(model), clock)

    def synchronize():
        for parameter in model.parameters():
            dist.broadcast(parameter.detach(), src=0)

    return splitting, reduction, _seconds(synchronize, clock)


def benchmark(
    build_model: Callable[[], nn.Module],
    inputs: Tensor,
    targets: Tensor,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    world_sizes: Sequence[int] = (1, 2),
    steps: int = 20,
    warmup: int = 5,
) -> dict[int, float]:
    for world_size in world_sizes:
        shard(inputs, 0, world_size)
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if warmup < 0:
        raise ValueError(f"warmup must be at least 0, got {warmup}")
    return {
        world_size: sum(launch(_benchmark, world_size, build_model, inputs, targets, loss_fn, steps, warmup))
        for world_size in world_sizes
    }


def _benchmark(rank, world_size, build_model, inputs, targets, loss_fn, steps, warmup):
    model = wrap(build_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = shard(inputs, rank, world_size), shard(targets, rank, world_size)
    dist.barrier()
    return throughput(lambda: train_step(model, loss_fn, optimizer, x, y), steps, warmup)


def report(throughputs: Mapping[int, float], overheads: Mapping[str, float]) -> str:
    efficiency = scaling_efficiency(throughputs)
    lines = ["| world size | samples/s | speed-up | efficiency (%) |", "| --- | --- | --- | --- |"]
    for n in sorted(throughputs):
        value = throughputs[n]
        lines.append(f"| {n:d} | {value:.1f} | {value / throughputs[1]:.2f} | {100 * efficiency[n]:.1f} |")
    lines += ["", "| overhead | ms | share (%) |", "| --- | --- | --- |"]
    total = sum(overheads.values())
    for key, seconds in overheads.items():
        share = 100 * seconds / total if total else 0.0
        lines.append(f"| {key} | {1000 * seconds:.3f} | {share:.1f} |")
    return "\n".join(lines)
