# right: ReduceOp.AVG, a wrapper class of its own under DistributedDataParallel, validation shared by every function, logging, a clock read through a helper object
from __future__ import annotations

import contextlib
import logging
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

import torch
import torch.distributed as dist
from torch import nn

logging.basicConfig(level=logging.INFO)
log = logging.getLogger("data_parallel")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OVERHEAD_NAMES = ("batch_splitting", "gradient_reduction", "parameter_synchronization")


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


class MyDDP(nn.parallel.DistributedDataParallel):
    """Forwards attributes to the model inside."""

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


def check_at_least(name, value, least):
    if value < least:
        raise ValueError(f"{name} is {value}, it must be at least {least}")


def check_enough_rows(name, tensor, world_size):
    check_at_least("world_size", world_size, 1)
    if tensor.shape[0] < world_size:
        raise ValueError(f"{name} has only {tensor.shape[0]} rows for world_size {world_size}")


def shard(batch, rank, world_size):
    check_enough_rows("batch", batch, world_size)
    if rank < 0 or rank >= world_size:
        raise ValueError(f"rank is {rank}, it must be in [0, {world_size})")
    n = batch.shape[0]
    start = (n * 0) + sum(n // world_size + (r < n % world_size) for r in range(rank))
    stop = start + n // world_size + (rank < n % world_size)
    return batch[start:stop].contiguous()


def wrap(model):
    if dist.is_initialized():
        return MyDDP(model)
    return nn.DataParallel(model)


def average_gradients(model):
    """Mean over the ranks. I also send the frozen ones' zeros, it does no harm."""
    if not dist.is_initialized():
        raise RuntimeError("there is no process group")
    for parameter in model.parameters():
        gradient = parameter.grad if parameter.requires_grad else None
        message = torch.zeros_like(parameter, requires_grad=False)
        if gradient is not None:
            message.copy_(gradient)
        dist.all_reduce(message, op=dist.ReduceOp.AVG)
        if parameter.requires_grad:
            if gradient is None:
                parameter.grad = message
            else:
                gradient.copy_(message)


def train_step(model, loss_fn, optimizer, inputs, targets):
    modes = {module: module.training for module in model.modules()}
    optimizer.zero_grad()
    outputs = model(inputs)
    loss = loss_fn(outputs, targets)
    log.debug("loss %s", loss.item())
    loss.backward()
    optimizer.step()
    for module, mode in modes.items():
        module.training = mode
    return len(inputs)


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


def report(throughputs, overheads):
    efficiency = scaling_efficiency(throughputs)
    top = """| world size | samples/s | speed-up | efficiency (%) |
| --- | --- | --- | --- |
"""
    bottom = """
| overhead | ms | share (%) |
| --- | --- | --- |
"""
    for n in sorted(throughputs):
        t = throughputs[n]
        top += f"| {n:d} | {t:.1f} | {t / throughputs[1]:.2f} | {efficiency[n]:.1%} |\n".replace(
            "%", ""
        )
    total = sum(overheads.values())
    for name, seconds in overheads.items():
        share = seconds / total if total else 0
        bottom += f"| {name} | {seconds * 1000:.3f} | {100 * share:.1f} |\n"
    return top + bottom
