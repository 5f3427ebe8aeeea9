"""Tables of values for the states 0 and 1, as networks with one row per state."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Table(nn.Module):
    """A network from one-hot states (B, 2) to values (B, 3), one per action, with `updates` as a buffer."""

    def __init__(self, values: Tensor, updates: int = 0) -> None:
        super().__init__()
        self.values = nn.Parameter(values)
        self.register_buffer("updates", torch.tensor(updates))

    def forward(self, states: Tensor) -> Tensor:
        return states @ self.values


def table(module: Any, values: Tensor, updates: int = 0) -> Table:
    return Table(values, updates)


def loss_and_gradient(module: Any, net: Table, *transitions: Any) -> dict[str, Any]:
    """The loss with net as its own target network, and the gradient of the table."""
    loss = module.td_loss(net, net, *transitions)
    report = {"loss": loss, "requires_grad": net.values.requires_grad, "gradient": None}
    if report["requires_grad"] and getattr(loss, "requires_grad", False):
        (report["gradient"],) = torch.autograd.grad(loss.sum(), net.values, allow_unused=True)
    return report


def updated(module: Any, target_net: Table, net: Table, tau: float) -> dict[str, Any]:
    """The contents of target_net after a soft update."""
    module.soft_update(target_net, net, tau)
    values = {"values": target_net.values.detach(), "net": net.values.detach()}
    return {**values, "updates": target_net.updates}
