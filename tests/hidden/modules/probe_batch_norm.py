"""Modules whose output depends on the batch or on their own state, and state dicts that change places."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor, nn


class Counting(nn.Module):
    """(n, 2, 3), n > 0: x times one more than the calls so far; it may fail at batches of one row."""

    def __init__(self, module: Any, fails: bool = False) -> None:
        super().__init__()
        self.fails, self.calls = fails, nn.Buffer(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        if len(x) == 0 or x.shape[1:] != (2, 3):
            raise TypeError(f"the module takes (n, 2, 3), n > 0, and was given {tuple(x.shape)}")
        self.calls.add_(1)
        if self.fails and len(x) == 1:
            raise LookupError("the module broke")
        return x * self.calls


def network(module: Any, state: dict[str, Tensor], training: list[str]) -> nn.Sequential:
    """(n, 3) to (n, 4), with two norms of PyTorch's; these parts in training mode; stale gradients."""
    made = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4)).double()
    made.load_state_dict(state)
    for name, part in made.named_modules():
        part.training = name in training
    made.get_parameter("1.bias").requires_grad_(False)
    for parameter in made.parameters():
        parameter.grad = torch.full_like(parameter, 7.0)
    return made


def exchanged(module: Any, state: dict[str, Tensor], x: Tensor) -> dict[str, Any]:
    """A state dict goes through a layer of the student's to one of PyTorch's, and its output on the way."""
    ours, theirs = module.BatchNorm1d(3).double(), nn.BatchNorm1d(3).double()
    ours.load_state_dict(state)
    theirs.load_state_dict(ours.state_dict())
    return {"output": ours.eval()(x), "state": theirs.state_dict()}


def passes(module: Any, xs: list[Tensor]) -> dict[str, Any]:
    """The state of a layer after passes in training mode, with a backward pass of all."""
    layer = module.BatchNorm1d(3)
    total = sum(layer(x.clone().requires_grad_()).square().sum() for x in xs)
    total.backward()
    buffers = {name: b for name, b in layer.named_buffers() if name in layer.state_dict()}
    graph = [name for name, buffer in buffers.items() if buffer.requires_grad]
    return {"buffers": {name: buffer.detach() for name, buffer in buffers.items()}, "graph": graph}


def files(module: Any, x: Tensor) -> list[str]:
    """The parts of torch whose files run in a pass in training mode."""
    layer, seen = module.BatchNorm1d(3), set[str]()
    root = torch.__file__.removesuffix("__init__.py")
    sys.setprofile(lambda frame, *_: seen.add(frame.f_code.co_filename))
    try:
        layer(x)
    finally:
        sys.setprofile(None)
    return sorted({file.removeprefix(root).partition("/")[0] for file in seen if root in file})
