"""A network that computes something else in training mode, and the gradients of td_loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

# In training mode only, the body multiplies by the factor and the network adds the shift. Unlike dropout,
# this is not random.
BODY_FACTOR, NETWORK_SHIFT = 1.5, 0.25
# Added to all values, so that even the largest is below 0.
OFFSET = -100.0


class Network(nn.Module):
    """Map states (B, ...) to values (B, actions). The network and its body have a buffer each."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 3)
        self.offset: Tensor
        self.register_buffer("offset", torch.zeros(3))
        self.body.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, states: Tensor) -> Tensor:
        hidden = torch.tanh(self.body(states.movedim(1, -1).flatten(1)))
        if self.body.training:
            hidden = hidden * BODY_FACTOR
        values: Tensor = self.head(hidden) + self.offset
        if self.training:
            values = values + NETWORK_SHIFT
        return values


@torch.no_grad()
def network(
    module: Any,
    seed: int,
    *,
    dtype: str = "float32",
    flat: bool = False,
    training: Sequence[str] = (),
    frozen: Sequence[str] = (),
) -> Network:
    """Make a Network with random numbers, and with an old gradient at each parameter.

    If it is `flat`, it gives 0 for every state and action. The parts in `training` ("" is the network itself)
    are in training mode. The parameters in `frozen` require no gradient.
    """
    generator, made = torch.Generator().manual_seed(seed), Network().to(getattr(torch, dtype))
    for tensor in (*made.parameters(), made.offset):
        tensor.normal_(generator=generator)
    made.offset.add_(OFFSET)
    made.get_buffer("body.steps").random_(1, 1000, generator=generator)
    if flat:
        for tensor in (*made.head.parameters(), made.offset):
            tensor.zero_()
    for name, part in made.named_modules():
        part.training = name in training
    for name, parameter in made.named_parameters():
        parameter.requires_grad_(name not in frozen)
        parameter.grad = parameter.detach() * 7
    return made


def gradients(
    module: Any,
    net: Network,
    target_net: Network,
    states: Tensor,
    actions: Tensor,
    rewards: Tensor,
    next_states: Tensor,
    dones: Tensor,
    gamma: float,
) -> dict[str, Any]:
    """Return the gradients of td_loss at both networks and at next_states."""
    net.zero_grad()
    target_net.zero_grad()
    next_states.requires_grad_()
    loss = module.td_loss(net, target_net, states, actions, rewards, next_states, dones, gamma)
    loss.backward()
    return {
        "net": {name: parameter.grad for name, parameter in net.named_parameters()},
        "target_net": {name: parameter.grad for name, parameter in target_net.named_parameters()},
        "next_states": next_states.grad,
    }
