"""What the public suite does with a student's module: a fake clock, and two ranks."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
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


def averaged(module: ModuleType, gradients: list[Tensor]) -> list[Any]:
    """The gradient of a model's one weight on each rank, after average_gradients."""

    def worker(rank: int, world_size: int) -> Any:
        del world_size
        model = nn.Linear(gradients[rank].shape[1], gradients[rank].shape[0], bias=False)
        model.weight.grad = gradients[rank].clone()
        try:
            module.average_gradients(model)
        except NotImplementedError as error:
            return str(error), None
        return None, model.weight.grad

    if "_JOIN_SECONDS" in vars(module):
        vars(module)["_JOIN_SECONDS"] = 3.0  # a test has less time than a student
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
