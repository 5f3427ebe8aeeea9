# right: a dataclass with postponed annotations, parameters broadcast as one flat vector, a clock that pickles
from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Callable, Mapping, Sequence
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from parallel import average_gradients, shard, train_step, wrap
from ranks import launch


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
