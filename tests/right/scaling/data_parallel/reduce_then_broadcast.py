# right: a scripted helper, reduce to rank 0 and broadcast back, asynchronous broadcasts, a forbidden-looking demo, strings built by templates
import math
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
from collections import OrderedDict
from datetime import timedelta
from multiprocessing.connection import wait
from typing import Tuple

import torch
import torch.distributed as td
import torch.distributed as dist
import torch.nn as nn
import torch.optim as optim


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


@torch.jit.script
def bounds(rows: int, rank: int, world_size: int) -> Tuple[int, int]:
    small = rows // world_size
    large = rows - small * world_size
    if rank < large:
        return rank * (small + 1), (rank + 1) * (small + 1)
    return rank * small + large, (rank + 1) * small + large


def shard(batch, rank, world_size):
    rows = len(batch)
    problem = None
    if world_size < 1:
        problem = "world_size must be >= 1"
    elif rank < 0 or rank > world_size - 1:
        problem = "rank must be >= 0 and < world_size"
    elif rows < world_size:
        problem = "batch must have at least world_size rows"
    if problem is not None:
        raise ValueError(problem)
    begin, end = bounds(rows, rank, world_size)
    return batch[begin:end]


def wrap(model: "nn.Module") -> "nn.Module":
    try:
        td.get_world_size()
    except (RuntimeError, ValueError):
        return torch.nn.DataParallel(model)
    return torch.nn.parallel.DistributedDataParallel(module=model)


def average_gradients(model: "nn.Module") -> None:
    try:
        world = td.get_world_size()
    except ValueError as error:
        raise RuntimeError("average_gradients: " + str(error)) from error
    rank = td.get_rank()
    for parameter in filter(lambda p: p.requires_grad, model.parameters()):
        gradient = parameter.grad
        if gradient is None:
            gradient = torch.zeros(parameter.shape, dtype=parameter.dtype)
        gradient = gradient.clone()
        td.reduce(gradient, dst=0)
        if rank == 0:
            gradient.mul_(1.0 / world)
        td.broadcast(gradient, src=0)
        parameter.grad = gradient


def train_step(model, loss_fn, optimizer, inputs, targets):
    def closure():
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        return loss

    optimizer.step(closure)
    return sum(1 for _ in inputs)


class _Meter:
    def __init__(self, clock, synchronize):
        self.clock, self.synchronize = clock, synchronize

    def __enter__(self):
        self.begin = self.read()
        return self

    def __exit__(self, kind, value, trace):
        self.elapsed = self.read() - self.begin

    def read(self):
        if self.synchronize:
            self.synchronize()
        return self.clock()


def throughput(step, steps=20, warmup=5, clock=time.perf_counter, synchronize=None):
    for name, value, least in (("steps", steps, 1), ("warmup", warmup, 0)):
        if value < least:
            raise ValueError("%s must be at least %d" % (name, least))
    while warmup > 0:
        warmup -= 1
        step()
    samples = 0
    with _Meter(clock, synchronize) as meter:
        while steps > 0:
            steps -= 1
            samples += step()
    try:
        rate = samples / meter.elapsed
    except ZeroDivisionError:
        raise ValueError("the clock does not advance") from None
    if rate < 0 or meter.elapsed < 0:
        raise ValueError("the clock runs backwards")
    return rate


def scaling_efficiency(throughputs):
    table = OrderedDict(throughputs)
    if 1 not in table.keys():
        raise ValueError("throughputs must hold world size 1")
    for n, t in table.items():
        if math.isnan(t) or math.isinf(t) or t <= 0:
            raise ValueError("throughputs[%d] is %r" % (n, t))
    for n, t in list(table.items()):
        table[n] = t / n / throughputs[1]
    return dict(table)


def measure_overheads(model, inputs, world_size, clock=time.perf_counter):
    shard(inputs, 0, world_size)
    slowest = {}
    for result in launch(_rank_overheads, world_size, model, inputs, clock):
        for name, seconds in result:
            slowest[name] = max(seconds, slowest.get(name, -math.inf))
    return slowest


def _rank_overheads(rank, world_size, model, inputs, clock):
    def split():
        return shard(inputs, rank, world_size)

    def reduce():
        average_gradients(model)

    def synchronize():
        handles = [td.broadcast(p.data, src=0, async_op=True) for p in model.parameters()]
        for handle in handles:
            handle.wait()

    results = []
    for name, work in (
        ("batch_splitting", split),
        ("gradient_reduction", reduce),
        ("parameter_synchronization", synchronize),
    ):
        if work is reduce:
            model(split()).sum().backward()
        work()
        td.barrier()
        begin = clock()
        for _ in range(10):
            work()
        end = clock()
        results.append((name, (end - begin) / 10.0))
    return results


def benchmark(
    build_model, inputs, targets, loss_fn, world_sizes=(1, 2), steps=20, warmup=5, lr=0.01
):
    if not steps >= 1:
        raise ValueError("steps must be at least 1")
    if not warmup >= 0:
        raise ValueError("warmup must be at least 0")
    for world_size in world_sizes:
        shard(inputs, 0, world_size)
        shard(targets, 0, world_size)

    def in_rank(rank, world_size):
        net = wrap(build_model())
        opt = optim.SGD(net.parameters(), lr=lr)
        x, y = (shard(whole, rank, world_size) for whole in (inputs, targets))
        td.barrier()
        return throughput(lambda: train_step(net, loss_fn, opt, x, y), steps, warmup)

    return dict(zip(world_sizes, [sum(launch(in_rank, world_size)) for world_size in world_sizes]))


SCALING_ROW = "| {n:d} | {rate:.1f} | {speed_up:.2f} | {efficiency:.1f} |"
OVERHEAD_ROW = "| {name} | {ms:.3f} | {share:.1f} |"


def report(throughputs, overheads):
    efficiencies = scaling_efficiency(throughputs)
    yield_lines = ["| world size | samples/s | speed-up | efficiency (%) |"]
    yield_lines += ["| --- | --- | --- | --- |"]
    yield_lines += [
        SCALING_ROW.format(
            n=n,
            rate=throughputs[n],
            speed_up=throughputs[n] / throughputs[1],
            efficiency=efficiencies[n] * 100,
        )
        for n in sorted(throughputs.keys())
    ]
    yield_lines += ["", "| overhead | ms | share (%) |", "| --- | --- | --- |"]
    total = sum(overheads.values()) or 1.0
    yield_lines += [
        OVERHEAD_ROW.format(name=name, ms=seconds * 1000, share=seconds / total * 100)
        for name, seconds in overheads.items()
    ]
    return "\n".join(yield_lines)
