# right: a dataclass with postponed annotations, gradients reduced as one flat vector, parameters broadcast as one flat vector
from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import wait
from typing import Callable, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters


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


@dataclass(frozen=True)
class Part:
    first: int
    rows: int

    @property
    def end(self) -> int:
        return self.first + self.rows


@dataclass
class Stopwatch:
    clock: Callable[[], float]
    laps: dict[str, float] = field(default_factory=dict)

    def lap(self, name: str, work: Callable[[], object], times: int = 10) -> None:
        work()
        dist.barrier()
        begin = self.clock()
        for _ in range(times):
            work()
        end = self.clock()
        self.laps[name] = (end - begin) / times


def part_of(rows: int, rank: int, world_size: int) -> Part:
    sizes = [rows // world_size + (1 if r < rows % world_size else 0) for r in range(world_size)]
    return Part(sum(sizes[:rank]), sizes[rank])


def shard(batch: Tensor, rank: int, world_size: int) -> Tensor:
    if world_size <= 0:
        raise ValueError("world_size: " + str(world_size))
    if rank < 0 or rank >= world_size:
        raise ValueError("rank: " + str(rank))
    if batch.size(0) < world_size:
        raise ValueError("batch: only " + str(batch.size(0)) + " rows")
    part = part_of(batch.size(0), rank, world_size)
    return batch.narrow(0, part.first, part.rows).clone()


def wrap(model: nn.Module) -> nn.Module:
    parallel = nn.parallel
    if torch.distributed.is_initialized():
        return parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    return parallel.DataParallel(model)


def average_gradients(model: nn.Module) -> None:
    if not dist.is_initialized():
        raise RuntimeError("no process group")
    trainable = [p for p in model.parameters() if p.requires_grad]
    if not trainable:
        return
    flat = torch.cat(
        [
            torch.zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad.reshape(-1)
            for p in trainable
        ]
    )
    dist.all_reduce(flat, op=dist.ReduceOp.SUM)
    flat.div_(dist.get_world_size())
    for p, piece in zip(trainable, flat.split([p.numel() for p in trainable])):
        p.grad = piece.view_as(p).clone()


def train_step(model, loss_fn, optimizer, inputs: Tensor, targets: Tensor) -> int:
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = None
    outputs = model(inputs)
    loss_fn(outputs, targets).backward()
    optimizer.step()
    return int(inputs.size(dim=0))


def throughput(
    step: Callable[[], int],
    steps: int = 20,
    warmup: int = 5,
    clock: Callable[[], float] = time.perf_counter,
    synchronize: Callable[[], object] | None = None,
) -> float:
    if warmup < 0:
        raise ValueError("warmup must not be negative")
    if steps <= 0:
        raise ValueError("steps must be positive")

    def now() -> float:
        (synchronize or (lambda: None))()
        return clock()

    [step() for _ in range(warmup)]
    begin = now()
    samples = sum([step() for _ in range(steps)])
    end = now()
    if end <= begin:
        raise ValueError("the clock stands still")
    return float(samples) / (end - begin)


def scaling_efficiency(throughputs: Mapping[int, float]) -> dict[int, float]:
    try:
        one = throughputs[1]
    except KeyError:
        raise ValueError("throughputs: no entry for 1") from None
    bad = {n: t for n, t in throughputs.items() if not 0 < t < math.inf}
    if bad:
        raise ValueError(f"throughputs not finite and positive: {bad}")
    return {n: (t / one) / n for n, t in throughputs.items()}


def _measure(rank, world_size, model, inputs, clock):
    watch = Stopwatch(clock)
    watch.lap("batch_splitting", lambda: shard(inputs, rank, world_size))
    model(shard(inputs, rank, world_size)).sum().backward()
    watch.lap("gradient_reduction", lambda: average_gradients(model))

    @torch.no_grad()
    def synchronize_parameters():
        vector = parameters_to_vector(model.parameters())
        dist.broadcast(vector, src=0)
        vector_to_parameters(vector, model.parameters())

    watch.lap("parameter_synchronization", synchronize_parameters)
    return watch


def measure_overheads(model, inputs, world_size, clock=time.perf_counter) -> dict[str, float]:
    for rank in range(max(1, world_size)):
        shard(inputs, rank, world_size)
    watches = launch(_measure, world_size, model, inputs, Clock(clock))
    names = ["batch_splitting", "gradient_reduction", "parameter_synchronization"]
    return {name: max(watch.laps[name] for watch in watches) for name in names}


class Clock:
    """A clock that survives the way back through the pipe (a closure would not pickle)."""

    def __init__(self, read):
        self.read = read

    def __call__(self):
        return self.read()

    def __reduce__(self):
        return (Clock, (None,))


def benchmark(
    build_model,
    inputs: Tensor,
    targets: Tensor,
    loss_fn,
    world_sizes: Sequence[int] = (1, 2),
    steps: int = 20,
    warmup: int = 5,
) -> dict[int, float]:
    if steps < 1 or warmup < 0:
        raise ValueError(f"bad steps or warmup: steps={steps}, warmup={warmup}")
    for world_size in world_sizes:
        for rank in range(max(1, world_size)):
            shard(inputs, rank, world_size)

    def work(rank, world_size):
        replica = wrap(build_model())
        sgd = torch.optim.SGD(replica.parameters(), 1e-2)
        mine = shard(inputs, rank, world_size), shard(targets, rank, world_size)

        def step():
            return train_step(replica, loss_fn, sgd, *mine)

        dist.barrier()
        return throughput(step, steps=steps, warmup=warmup)

    return {world_size: math.fsum(launch(work, world_size)) for world_size in world_sizes}


def report(throughputs: Mapping[int, float], overheads: Mapping[str, float]) -> str:
    efficiencies = scaling_efficiency(throughputs)

    def row(*cells: str) -> str:
        return "| " + " | ".join(cells) + " |"

    scaling = [row("world size", "samples/s", "speed-up", "efficiency (%)"), row(*["---"] * 4)]
    for n, rate in sorted(throughputs.items()):
        scaling.append(
            row(
                format(n, "d"),
                format(rate, ".1f"),
                format(rate / throughputs[1], ".2f"),
                format(efficiencies[n] * 100, ".1f"),
            )
        )
    total = sum(overheads.values())
    costs = [row("overhead", "ms", "share (%)"), row(*["---"] * 3)]
    for name, cost in overheads.items():
        share = cost / total * 100 if total else 0
        costs.append(row(name, format(cost * 1000, ".3f"), format(share, ".1f")))
    return "\n\n".join("\n".join(table) for table in (scaling, costs)) + "\n"
