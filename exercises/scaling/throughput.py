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
    # TODO: warm up, time the steps between two readings, divide.
    raise NotImplementedError("throughput: warm up, time the steps between two readings, divide")


def scaling_efficiency(throughputs: Mapping[int, float]) -> dict[int, float]:
    """Return the efficiency of each world size in `throughputs`, as a fraction, in its order.

    Raises:
        ValueError: `throughputs` lacks 1, or a value is not finite and positive. The message
            names `throughputs`.
    """
    # TODO: check, then divide.
    raise NotImplementedError("scaling_efficiency: check, then divide")


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
    # TODO: time the three in each rank, keep the slowest.
    raise NotImplementedError("measure_overheads: time the three in each rank, keep the slowest")


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
    # TODO: train in each rank, sum up the ranks' throughputs.
    raise NotImplementedError("benchmark: train in each rank, sum up the ranks' throughputs")
