"""Parameters with given gradients, a model that logs its calls, and a loss whose gradients may be inf."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FORWARDS: list[Tensor] = []  # the inputs of each forward pass, also by copies of a model


# --- gradients -----------------------------------------------------------------------------------


def parameters(module: Any, gradients: list[Any]) -> list[nn.Parameter]:
    """Parameters with these gradients."""
    made = []
    for gradient in gradients:
        like = torch.ones(2) if gradient is None else torch.ones_like(gradient)
        parameter = nn.Parameter(like)
        parameter.grad = gradient
        made.append(parameter)
    return made


def generator(module: Any, gradients: list[Any]) -> Iterator[nn.Parameter]:
    """The same parameters from a generator."""
    yield from parameters(module, gradients)


def clipped(
    module: Any, name: str, gradients: list[Any], *limits: Any, **options: Any
) -> dict[str, Any]:
    """The result of a call, the gradients after it, and whether they are the same objects."""
    made = parameters(module, gradients)
    value = getattr(module, name)(made, *limits, **options)
    return {
        "value": value,
        "gradients": [parameter.grad for parameter in made],
        "same": [p.grad is gradient for p, gradient in zip(made, gradients, strict=True)],
    }


def clipped_from_a_generator(module: Any, gradients: list[Any], max_norm: float) -> list[Any]:
    """The gradients after a call of clip_grad_norm_ with a generator of parameters."""
    made = parameters(module, gradients)
    module.clip_grad_norm_((parameter for parameter in made), max_norm)
    return [parameter.grad for parameter in made]


# --- training ------------------------------------------------------------------------------------


class Network(nn.Sequential):
    """A network from (n, 3) to (n, 2), with old gradients."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2, bias=False))
        for parameter in self.parameters():
            parameter.grad = torch.full_like(parameter, 70.0)

    def forward(self, x: Tensor) -> Tensor:
        FORWARDS.append(x)
        for part in self:
            x = part(x)
        return x


def model(module: Any, seed: int) -> Network:
    torch.default_generator.manual_seed(seed)
    return Network()


def model_with_a_frozen_bias(module: Any, seed: int) -> Network:
    """A Network with a frozen first bias and an unused parameter."""
    network = model(module, seed)
    network[0].bias.requires_grad_(False)
    network[0].bias.grad = None
    network.register_parameter("unused", nn.Parameter(torch.zeros(2)))
    return network


def optimizer(module: Any, model: nn.Module) -> torch.optim.SGD:
    """SGD with momentum, in two groups."""
    first, *others = model.parameters()
    return torch.optim.SGD([{"params": [first]}, {"params": others}], lr=0.1, momentum=0.9)


def loss_fn(module: Any) -> Any:
    return loss


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """A squared error, plus a root whose slope is infinite where column 2 of the targets is 0."""
    zero = outputs[:, 0] - outputs[:, 0].detach()
    return F.mse_loss(outputs, targets[:, :2]) + (zero + targets[:, 2]).sqrt().mean()


def trained(module: Any, network: Network, batches: list[Any], max_norm: float) -> dict[str, Any]:
    """The results of the steps of a training, and all weights after each step."""
    sgd = optimizer(module, network)
    values, weights = [], []
    for inputs, targets in batches:
        values.append(module.train_step(network, loss, sgd, inputs, targets, max_norm))
        weights.append(nn.utils.parameters_to_vector(network.parameters()).detach())
    return {"values": values, "weights": weights}


def finite_values(
    module: Any, network: Network, batches: list[Any], max_norm: float
) -> dict[str, Any]:
    """The same report, but with math.isfinite of the results instead of the results."""
    report = trained(module, network, batches, max_norm)
    return {**report, "values": [math.isfinite(value) for value in report["values"]]}


def logged(
    module: Any, network: Network, batch: tuple[Tensor, Tensor], modes: list[bool]
) -> dict[str, Any]:
    """The number of forward passes in a step, and the modes of the model's parts after it."""
    for part, training in zip(network.modules(), modes, strict=True):
        part.training = training
    FORWARDS.clear()
    module.train_step(network, loss, optimizer(module, network), *batch, 1.0)
    return {
        "number of forward passes": len(FORWARDS),
        "modes afterwards": [part.training for part in network.modules()],
    }
