"""Run gradient_flow on a small network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Small(nn.Module):
    """x (batch, 2) -> first -> second -> (batch, 1); `spare` is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Linear(3, 1)
        self.spare = nn.Linear(3, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(torch.tanh(self.first(x)))
        return result


def flow(module: Any, *, frozen: list[str], stale: bool) -> Any:
    """The answer of gradient_flow. If `stale`, each parameter has an old gradient."""
    network = Small()
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name not in frozen)
        if stale:
            parameter.grad = torch.ones_like(parameter)
    return module.gradient_flow(network, torch.ones(4, 2))


def left(module: Any, *, frozen: bool) -> list[Any]:
    """The gradients of second.bias and of x (4, 2) after gradient_flow."""
    network, x = Small(), torch.ones(4, 2, requires_grad=True)
    network.requires_grad_(not frozen)
    module.gradient_flow(network, x)
    gradient = network.second.bias.grad
    return [None if gradient is None else gradient.item(), x.grad]
