"""A fake clock and two ranks for the examples."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn


def throughput(module: ModuleType, counts: list[int], seconds: list[float], warmup: int) -> Any:
    """Measure steps that return these counts and take these seconds. Only steps move the clock."""
    now, taken = 0.0, 0

    def step() -> int:
        nonlocal now, taken
        which = taken % len(counts)
        now += seconds[which]
        taken += 1
        return counts[which]

    return module.throughput(step, steps=len(counts) - warmup, warmup=warmup, clock=lambda: now)


def events(module: ModuleType) -> list[str]:
    """The calls that throughput makes, in order, for one warm-up step and two timed steps."""
    called: list[str] = []

    def clock() -> float:
        called.append("clock")
        return float(len(called))

    def step() -> int:
        called.append("step")
        return 1

    module.throughput(
        step, steps=2, warmup=1, clock=clock, synchronize=lambda: called.append("synchronize")
    )
    return called


def benchmarked(module: ModuleType) -> Any:
    """The result of benchmark if rank 0 has the throughput 10, and rank 1 has 20."""
    # Shorter than for students, because tests have little time.
    vars(sys.modules["ranks"])["JOIN_SECONDS"] = 3.0

    def throughput(step: Any, *_: Any, **__: Any) -> float:
        step()
        return 10.0 * (dist.get_rank() + 1)

    kept, module.throughput = module.throughput, throughput  # type: ignore[attr-defined]
    inputs, targets = torch.ones(4, 2), torch.ones(4, 1)
    try:
        return module.benchmark(
            lambda: nn.Linear(2, 1), inputs, targets, nn.functional.mse_loss, (2, 1)
        )
    finally:
        module.throughput = kept  # type: ignore[attr-defined]
