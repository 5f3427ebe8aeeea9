"""A network for gradient_flow, with parameters that gradients reach and parameters that they do not."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Network(nn.Module):
    """Parameters that are used, cut off by a detach, or not used."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.body = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
        self.cut = nn.Linear(4, 3)
        self.unused = nn.Linear(3, 3)
        self.head = nn.Linear(3, 2)
        self.register_buffer("offset", torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x) + self.cut(x).detach()
        output: Tensor = self.head(hidden) * self.scale + self.offset
        return output


def network(
    module: Any,
    seed: int,
    like: Tensor,
    *,
    frozen: tuple[str, ...] = (),
    evaluating: tuple[str, ...] = (),
    old_gradient: float | None = None,
) -> Network:
    """A new Network, of the dtype of `like`, whose parameters hold an old gradient if one is given.

    Parameters in `frozen` do not require a gradient; the submodules in `evaluating` (by name, "" is the
    network itself) are in evaluation mode.
    """
    torch.default_generator.manual_seed(seed)
    made = Network().to(like.dtype)
    for name, parameter in made.named_parameters():
        parameter.requires_grad_(name not in frozen and "all" not in frozen)
        if old_gradient is not None:
            parameter.grad = torch.full_like(parameter, old_gradient)
    for name, submodule in made.named_modules():
        submodule.training = name not in evaluating
    return made
