"""Two ranks and training steps for the examples."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

import ranks

ranks.JOIN_SECONDS = 3.0  # shorter than for students, because tests have little time


def wrapped(module: ModuleType) -> list[str]:
    """The classes of the wrapper, without a process group and on the only rank of one."""

    def kind(*_: Any) -> str:
        wrapper = module.wrap(nn.Linear(2, 1))
        kinds = (nn.DataParallel, nn.parallel.DistributedDataParallel)
        return next((k.__name__ for k in kinds if isinstance(wrapper, k)), type(wrapper).__name__)

    return [kind(), ranks.launch(kind, 1)[0]]


def averaged(module: ModuleType, gradients: list[Tensor]) -> list[Any]:
    """The gradient of a model's only weight on each rank, after average_gradients."""

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

    pairs = ranks.launch(worker, len(gradients))
    for unwritten, _ in pairs:
        if unwritten is not None:
            raise NotImplementedError(unwritten)
    return [gradient for _, gradient in pairs]


def train(
    module: ModuleType, weight: Tensor, inputs: Tensor, targets: Tensor, lr: float, steps: int
) -> tuple[list[Any], list[Tensor]]:
    """The results of steps on the same batch, and the weight after each step."""
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
