"""Modules whose output depends on the batch or on their own state, and what passes leave in a layer."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

# Modules are made as by a function of this probe: the first argument is the student's module.


class Counting(nn.Module):
    """x times one more than the calls so far."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.calls = nn.Buffer(torch.tensor(0.0))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return x * self.calls


class Centered(nn.Module):
    """x less the mean of its batch."""

    def __init__(self, module: Any) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


def network(module: Any, state: dict[str, Tensor], training: list[str]) -> nn.Sequential:
    """(n, 3) to (n, 4), with two norms of PyTorch's; parts in `training` train; gradients from before."""
    made = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4)).double()
    made.load_state_dict(state)
    for name, part in made.named_modules():
        part.training = name in training
    made.get_parameter("1.bias").requires_grad_(False)
    for parameter in made.parameters():
        parameter.grad = torch.full_like(parameter, 7.0)
    return made


def passes(module: Any, xs: list[Tensor]) -> dict[str, Any]:
    """The buffers of a new layer after passes in training mode, and those that are in a graph."""
    layer = module.BatchNorm1d(3)
    for x in xs:
        layer(x.requires_grad_())
    buffers = dict(layer.named_buffers())
    graph = [name for name, buffer in buffers.items() if buffer.requires_grad]
    return {"buffers": {name: b.detach() for name, b in buffers.items()}, "graph": graph}


def files(module: Any, x: Tensor) -> list[str]:
    """The folders of torch whose files run in a pass in training mode."""
    layer = module.BatchNorm1d(3)
    seen: set[str] = set()

    def note(frame: FrameType, _event: str, _value: Any) -> None:
        seen.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        layer(x)
    finally:
        sys.setprofile(None)
    root = torch.__file__.removesuffix("__init__.py")
    inner = [file.removeprefix(root) for file in seen if file.startswith(root)]
    return sorted({file.partition("/")[0] for file in inner})
