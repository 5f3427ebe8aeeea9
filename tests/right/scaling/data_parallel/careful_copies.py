# right: wraps a deep copy, coalesced broadcasts, monitored barriers, seconds by way of a tensor, synchronizes more often than it must, gradients divided all at once
from __future__ import annotations

import copy
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
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, got {world_size}")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be in 0..{world_size - 1}, got {rank}")
    if len(batch) < world_size:
        raise ValueError(f"batch has {len(batch)} rows, too few for {world_size} ranks")
    return torch.tensor_split(batch, world_size)[rank]


def wrap(model):
    model = copy.deepcopy(model)  # whoever gave it to me keeps theirs
    if dist.is_initialized():
        return nn.parallel.DistributedDataParallel(model, static_graph=True)
    return nn.DataParallel(model)


def average_gradients(model):
    if not dist.is_initialized():
        raise RuntimeError("there is no process group")
    params = [p for p in model.parameters() if p.requires_grad]
    works = []
    for p in params:
        if p.grad is None:
            p.grad = p.detach() * 0
        works.append(dist.all_reduce(p.grad, async_op=True))
    for work in works:
        work.wait()
    torch._foreach_div_([p.grad for p in params], dist.get_world_size())


def train_step(model, loss_fn, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return inputs.shape[0]


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


def report(throughputs, overheads):
    efficiency = scaling_efficiency(throughputs)
    lines = [
        "| world size | samples/s | speed-up | efficiency (%) |",
        "| --- | --- | --- | --- |",
    ]
    for n in sorted(throughputs):
        rate = throughputs[n]
        speedup = rate / throughputs[1]
        lines.append(f"| {n:d} | {rate:.1f} | {speedup:.2f} | {100 * efficiency[n]:.1f} |")
    lines.append("")
    lines.append("| overhead | ms | share (%) |")
    lines.append("| --- | --- | --- |")
    total = sum(overheads.values())
    for name, seconds in overheads.items():
        share = 100 * seconds / total if total > 0 else 0.0
        lines.append(f"| {name} | {1000 * seconds:.3f} | {share:.1f} |")
    return "\n".join(lines)
