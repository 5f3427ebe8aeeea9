# right: a class that collects, steps with _foreach operations, an average kept in a state that is cloned for each step
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import Tensor

Outcome = Literal["leaf", "needed", "safe"]


class Collector(torch.autograd.graph.saved_tensors_hooks):
    """Collects the storages of what is saved."""

    def __init__(self) -> None:
        self.storages: list[torch.UntypedStorage] = []
        super().__init__(self.pack, self.unpack)

    def pack(self, tensor: Tensor) -> Tensor:
        self.storages.append(tensor.untyped_storage())
        return tensor

    def unpack(self, tensor: Tensor) -> Tensor:
        return tensor

    def has(self, x: Tensor) -> bool:
        return any(s.data_ptr() == x.untyped_storage().data_ptr() for s in self.storages)


class RunningAverage:
    def __init__(self, momentum: float) -> None:
        if not 0.0 <= momentum <= 1.0:
            raise ValueError(f"momentum: {momentum}")
        self.momentum, self.state = momentum, None

    def update(self, row: Tensor) -> Tensor:
        if self.state is None:
            self.state = row.clone()
        else:
            self.state = self.state.clone()
            self.state.mul_(self.momentum)
            self.state.add_(row, alpha=1 - self.momentum)
        return self.state


def in_place_outcome(x: Tensor, forward: Callable[[Tensor], Tensor]) -> Outcome:
    if x.requires_grad and x.is_leaf:
        return "leaf"
    collector = Collector()
    with torch.enable_grad(), collector:
        y = forward(x)
    return "needed" if y.requires_grad and collector.has(x) else "safe"


def sgd_step(parameters: Iterable[Tensor], lr: float) -> None:
    pairs = [(p, p.grad) for p in parameters if p.grad is not None]
    if pairs:
        with torch.no_grad():
            tensors, grads = zip(*pairs)
            torch._foreach_add_(list(tensors), list(grads), alpha=-lr)


def exponential_average(x: Tensor, momentum: float) -> Tensor:
    average = RunningAverage(momentum)
    steps = [average.update(row) for row in x]
    if not steps:
        return torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    return torch.stack(steps)
