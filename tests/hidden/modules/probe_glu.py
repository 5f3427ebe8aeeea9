"""A network for gradient_flow, with every fate that a parameter can have."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Linear(nn.Linear):
    """A linear layer without a start of its own: its values come from the judge."""

    def reset_parameters(self) -> None:
        """Leave whatever is in memory."""


class Network(nn.Module):
    """Parameters that are used, cut off by a detach, or not used."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.body = nn.Sequential(Linear(4, 3), nn.Tanh())
        self.cut = Linear(4, 3)
        self.unused = Linear(3, 3)
        self.head = Linear(3, 2)
        self.register_buffer("offset", torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x) + self.cut(x).detach()
        output: Tensor = self.head(hidden) * self.scale + self.offset
        return output


def network(
    module: Any,
    state: Tensor,
    frozen: list[str],
    stale: list[str],
    evaluating: list[str],
    old_gradient: float,
) -> Network:
    """A Network with these values, one after the other in the order of their names.

    Parameters in `frozen` do not require a gradient, those in `stale` hold an old one, the submodules in
    `evaluating` (by name, "" is the network itself) are in evaluation mode.
    """
    made = Network().to(state.dtype)
    for _, tensor in sorted(made.state_dict().items()):
        tensor.copy_(state[: tensor.numel()].view(tensor.shape))
        state = state[tensor.numel() :]
    for name, parameter in made.named_parameters():
        parameter.requires_grad_(name not in frozen)
        if name in stale:
            parameter.grad = torch.full_like(parameter, old_gradient)
    for name, submodule in made.named_modules():
        submodule.training = name not in evaluating
    return made
