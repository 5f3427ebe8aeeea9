"""A network whose modes show in its values, and the gradients of a loss, raw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Network(nn.Module):
    """States (B, ...) to (B, actions), with a frozen part and buffers of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 3)
        self.offset: Tensor
        self.register_buffer("offset", torch.zeros(3))
        self.body.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, states: Tensor) -> Tensor:
        hidden = torch.tanh(self.body(states.movedim(1, -1).flatten(1)))
        # As dropout does something in training mode only; unlike dropout, always the same.
        values: Tensor = self.head(hidden * 1.5 if self.body.training else hidden) + self.offset
        return values + 0.25 if self.training else values


def network(
    module: Any,
    state: dict[str, Tensor],
    *,
    training: Sequence[str] = (),
    frozen: Sequence[str] = (),
    stale: bool = False,
) -> Network:
    """A Network of this state; `training` names submodules, `frozen` parameters, `stale` gives `.grad`s."""
    made = Network().to(state["offset"].dtype)
    made.load_state_dict(state)
    for name, part in made.named_modules():
        part.training = name in training
    for name, parameter in made.named_parameters():
        parameter.requires_grad_(name not in frozen)
        parameter.grad = parameter.detach() * 7 if stale else None
    return made


def gradients(module: Any, net: Network, target_net: Network, *others: Any) -> dict[str, Any]:
    """A loss, and its gradients: at net, at target_net if that is another one, at the states."""
    states = {"states": others[0].requires_grad_(), "next_states": others[3].requires_grad_()}
    loss = module.td_loss(net, target_net, *others)
    report = {"loss": loss, "graph": isinstance(loss, Tensor) and loss.requires_grad}
    second = {} if target_net is net else dict(target_net.named_parameters())
    owners = {"net": dict(net.named_parameters()), "target_net": second, "states": states}
    for name, tensors in owners.items():
        report[name] = dict.fromkeys(tensors)
        leaves = {key: leaf for key, leaf in tensors.items() if leaf.requires_grad}
        if report["graph"] and leaves:
            wanted = list(leaves.values())
            found = torch.autograd.grad(loss.sum(), wanted, allow_unused=True, retain_graph=True)
            report[name] |= dict(zip(leaves, found, strict=True))
    return report
