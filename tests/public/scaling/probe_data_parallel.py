"""What the public suite does with a student's module: a fake clock, and two ranks."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


def throughput(module: ModuleType, counts: list[int], seconds: list[float], warmup: int) -> Any:
    """Measure steps that return these counts and take these seconds; only they move the clock."""
    now, taken = 0.0, 0

    def step() -> int:
        nonlocal now, taken
        which = taken % len(counts)
        now += seconds[which]
        taken += 1
        return counts[which]

    return module.throughput(step, steps=len(counts) - warmup, warmup=warmup, clock=lambda: now)


def events(module: ModuleType) -> list[str]:
    """What throughput calls, in this order, for a warm-up of one step and two timed ones."""
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


def wrapped(module: ModuleType) -> list[str]:
    """The classes of what wrap makes of a model alone and on the only rank of a process group."""
    _be_quick(module)

    def kind(*_: Any) -> str:
        wrapper = module.wrap(nn.Linear(2, 1))
        kinds = (nn.DataParallel, nn.parallel.DistributedDataParallel)
        return next((k.__name__ for k in kinds if isinstance(wrapper, k)), type(wrapper).__name__)

    return [kind(), module.launch(kind, 1)[0]]


def benchmarked(module: ModuleType) -> Any:
    """The benchmark where each rank's throughput is 10 times its number, counted from 1."""
    _be_quick(module)

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


def _be_quick(module: ModuleType) -> None:
    if "_JOIN_SECONDS" in vars(module):
        vars(module)["_JOIN_SECONDS"] = 3.0  # a test has less time than a student


def averaged(module: ModuleType, gradients: list[Tensor]) -> list[Any]:
    """The gradient of a model's one weight on each rank, after average_gradients."""

    def worker(rank: int, world_size: int) -> Any:
        del world_size
        inner = nn.Linear(gradients[rank].shape[1], gradients[rank].shape[0], bias=False)
        inner.weight.grad = gradients[rank].clone()
        model = nn.Sequential(inner)
        try:
            module.average_gradients(model)
        except NotImplementedError as error:
            return str(error), None
        return None, inner.weight.grad

    _be_quick(module)
    ranks = module.launch(worker, len(gradients))
    for unwritten, _ in ranks:
        if unwritten is not None:
            raise NotImplementedError(unwritten)
    return [gradient for _, gradient in ranks]


def train(
    module: ModuleType, weight: Tensor, inputs: Tensor, targets: Tensor, lr: float, steps: int
) -> tuple[list[Any], list[Tensor]]:
    """What each step on the same batch returns, and the weight after each."""
    model = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    with torch.no_grad():
        model.weight.copy_(weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    returned, weights = [], []
    for _ in range(steps):
        step = module.train_step(model, nn.functional.mse_loss, optimizer, inputs, targets)
        returned.append(step)
        weights.append(model.weight.detach().clone())
    return returned, weights
