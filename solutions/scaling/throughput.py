"""Throughput, scaling efficiency and overheads of data-parallel training.

Throughput is samples per second. Ideally W ranks reach W times that of one; the share they reach is
the scaling efficiency

    E_W = T_W / (W * T_1)

The rest goes into overheads: splitting batches, averaging gradients, keeping parameters equal.

Call `launch` and the functions of parallel.py by their names. Real speed is not judged: the tests
bring their own clocks.

Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".

What holds for every exercise: docs/every-exercise.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from parallel import average_gradients, shard, train_step, wrap
from ranks import launch

# begin solution: imports and constants
import math  # isort: skip

_CALLS = 10  # timed calls of each overhead
_LEARNING_RATE = 0.01
# end solution


def throughput(
    step: Callable[[], int],
    steps: int = 20,
    warmup: int = 5,
    clock: Callable[[], float] = time.perf_counter,
    synchronize: Callable[[], object] | None = None,
) -> float:
    """Return the samples per second of `step`, which returns its number of samples.

    `warmup` steps run first, untimed. Then `steps` steps run between exactly two readings of
    `clock`. A GPU may still be working when a step returns: `synchronize`, if given, waits for
    it. Call it right before each reading only.

    Raises:
        ValueError: `steps` is below 1 or `warmup` below 0 (then no step runs), or `clock` does
            not advance. The message names the argument.
    """
    # begin solution: warm up, time the steps between two readings, divide
    _check_steps(steps, warmup)
    for _ in range(warmup):
        step()
    start = _read(clock, synchronize)
    samples = sum(step() for _ in range(steps))
    seconds = _read(clock, synchronize) - start
    if not seconds > 0:
        raise ValueError(f"clock advanced by {seconds} s over {steps} steps, it must advance")
    return samples / seconds
    # end solution


# begin solution
def _check_steps(steps: int, warmup: int) -> None:
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if warmup < 0:
        raise ValueError(f"warmup must be at least 0, got {warmup}")


def _read(clock: Callable[[], float], synchronize: Callable[[], object] | None) -> float:
    if synchronize is not None:
        synchronize()
    return clock()


# end solution


def scaling_efficiency(throughputs: Mapping[int, float]) -> dict[int, float]:
    """Return the efficiency of each world size in `throughputs`, as a fraction, in its order.

    Raises:
        ValueError: `throughputs` lacks 1, or a value is not finite and positive. The message
            names `throughputs`.
    """
    # begin solution: check, then divide
    if 1 not in throughputs:
        raise ValueError("throughputs needs an entry for 1, which all others are compared with")
    for world_size, value in throughputs.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"throughputs must be finite and positive, got {world_size}: {value}")
    return {n: value / (n * throughputs[1]) for n, value in throughputs.items()}
    # end solution


def measure_overheads(
    model: nn.Module,
    inputs: Tensor,
    world_size: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the seconds that a call of each overhead takes on the slowest rank.

    Under `launch`, every rank measures, in this order,

    1. `"batch_splitting"`: `shard` of `inputs`, for this rank;
    2. `"gradient_reduction"`: `average_gradients` of `model`, after an untimed
       `model(part).sum().backward()` on the rank's part;
    3. `"parameter_synchronization"`: a broadcast of every parameter, frozen or not, from rank 0.

    Each is called once untimed; then come a barrier, a reading of `clock`, 10 calls, and a
    reading. The result has these keys, in this order.

    Raises:
        ValueError: `shard` would refuse `inputs` or `world_size`; nothing is launched.
    """
    # begin solution: time the three in each rank, keep the slowest
    shard(inputs, 0, world_size)
    ranks = launch(_measure_rank, world_size, model, inputs, clock)
    return {name: max(seconds[name] for seconds in ranks) for name in ranks[0]}
    # end solution


# begin solution
def _measure_rank(
    rank: int, world_size: int, model: nn.Module, inputs: Tensor, clock: Callable[[], float]
) -> dict[str, float]:
    """Measure the three overheads in one rank."""

    def broadcast_parameters() -> None:
        for parameter in model.parameters():
            dist.broadcast(parameter.detach(), src=0)

    seconds = {}
    seconds["batch_splitting"] = _seconds_per_call(lambda: shard(inputs, rank, world_size), clock)
    model(shard(inputs, rank, world_size)).sum().backward()
    seconds["gradient_reduction"] = _seconds_per_call(lambda: average_gradients(model), clock)
    seconds["parameter_synchronization"] = _seconds_per_call(broadcast_parameters, clock)
    return seconds


def _seconds_per_call(call: Callable[[], object], clock: Callable[[], float]) -> float:
    """Time 10 calls of `call`, which begin on all ranks together, and return the mean."""
    call()
    dist.barrier()
    start = clock()
    for _ in range(_CALLS):
        call()
    return (clock() - start) / _CALLS


# end solution


def benchmark(
    build_model: Callable[[], nn.Module],
    inputs: Tensor,
    targets: Tensor,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    world_sizes: Sequence[int] = (1, 2),
    steps: int = 20,
    warmup: int = 5,
) -> dict[int, float]:
    """Return the throughput of data-parallel training for each of `world_sizes`, in their order.

    Under `launch`, also for one rank, every rank makes `wrap(build_model())` and SGD with a
    learning rate of 0.01. Its step is a `train_step` on its shards of `inputs` and `targets`.
    After a barrier it calls your `throughput(step, steps, warmup)`. The ranks' throughputs add up.

    Raises:
        ValueError: `shard` or `throughput` would refuse an argument; nothing is launched.
    """
    # begin solution: train in each rank, sum up the ranks' throughputs
    # Refuse here, before any rank exists, everything that a rank would refuse.
    _check_steps(steps, warmup)
    for world_size in world_sizes:
        shard(inputs, 0, world_size)
    return {
        world_size: sum(
            launch(
                _benchmark_rank, world_size, build_model, inputs, targets, loss_fn, steps, warmup
            )
        )
        for world_size in world_sizes
    }
    # end solution


# begin solution
def _benchmark_rank(
    rank: int,
    world_size: int,
    build_model: Callable[[], nn.Module],
    inputs: Tensor,
    targets: Tensor,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    steps: int,
    warmup: int,
) -> float:
    """Train in one rank, and return its own throughput."""
    model = wrap(build_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=_LEARNING_RATE)
    part = shard(inputs, rank, world_size)
    part_targets = shard(targets, rank, world_size)
    dist.barrier()
    return throughput(
        lambda: train_step(model, loss_fn, optimizer, part, part_targets), steps, warmup
    )


# end solution
