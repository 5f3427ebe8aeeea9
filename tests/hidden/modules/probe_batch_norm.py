"""Modules whose output depends on the batch or on their state, and the state of a layer after its passes."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

# The constructors below are called like functions of this probe: their first argument is the student's module.


class Counting(nn.Module):
    """Multiply x by the number of calls, this one included."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.calls = nn.Buffer(torch.tensor(0.0))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return x * self.calls


class Centered(nn.Module):
    """Subtract the mean of the batch from x."""

    def __init__(self, module: Any) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


def network(module: Any, seed: int, training: list[str]) -> nn.Sequential:
    """A network from (n, 3) to (n, 4) with two of PyTorch's norms, and with old gradients.

    Only the parts named in `training` are in training mode.
    """
    made = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4)).double()
    generator = torch.Generator().manual_seed(seed)
    for tensor in made.state_dict().values():
        if tensor.is_floating_point():
            tensor.uniform_(0.5, 1.5, generator=generator)
    for name, part in made.named_modules():
        part.training = name in training
    made.get_parameter("1.bias").requires_grad_(False)
    for parameter in made.parameters():
        parameter.grad = torch.full_like(parameter, 7.0)
    return made


def broken(module: Any, seed: int, training: list[str]) -> nn.Sequential:
    """A network that raises an error in training mode, at the end of a pass with two rows."""
    made = network(module, seed, training)

    def fail(layer: nn.Module, inputs: Any, output: Tensor) -> None:
        if layer.training and len(output) == 2:
            raise LookupError("the module broke")

    made.register_forward_hook(fail)
    return made


def passes(module: Any, xs: list[Tensor]) -> dict[str, Tensor]:
    """The buffers of a new layer after passes in training mode, the last one under no_grad."""
    layer = module.BatchNorm1d(3)
    for x in xs[:-1]:
        layer(x.requires_grad_())
    with torch.no_grad():
        layer(xs[-1])
    return {name: buffer.detach() for name, buffer in layer.named_buffers()}


def buffers_in_a_graph(module: Any, x: Tensor) -> list[str]:
    """The buffers of a new layer that require a gradient after a pass."""
    layer = module.BatchNorm1d(3)
    layer(x.requires_grad_())
    return [name for name, buffer in layer.named_buffers() if buffer.requires_grad]


def files(module: Any, x: Tensor) -> list[str]:
    """The folders of torch that have files which run during a pass in training mode."""
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
