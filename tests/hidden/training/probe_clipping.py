"""Parameters with given gradients, a model that logs its calls, and a loss whose gradients may be inf."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LOG: list[list[bool]] = []  # the modes in each forward pass; of copies of a model, too


def parameters(module: Any, values: list[Tensor], gradients: list[Any], form: str = "list") -> Any:
    """Parameters with these gradients, the first one frozen: a list, a tuple, a generator."""
    made = [nn.Parameter(value) for value in values]
    for parameter, gradient in zip(made, gradients, strict=True):
        parameter.grad = gradient
        if form == "graph" and gradient is not None:
            parameter.grad = parameter * 0 + gradient
    for parameter in made[:1]:
        parameter.requires_grad_(False)
    return shaped(made, form)


def shaped(made: list[nn.Parameter], form: str) -> Any:
    if form == "generator":
        return (parameter for parameter in made)
    return tuple(made) if form == "tuple" else made


def clipped(
    module: Any, name: str, values: list[Tensor], gradients: list[Any], form: str, *more: Any
) -> dict[str, Any]:
    """What a call returns and leaves: the gradients, and whether they are the same objects."""
    made = parameters(module, values, gradients)
    value = getattr(module, name)(shaped(made, form), *more)
    same = [p.grad is gradient for p, gradient in zip(made, gradients, strict=True)]
    after = [p.grad if p.grad is None else p.grad.detach() for p in made]
    return {"value": value, "gradients": after, "same": same}


class Network(nn.Module):
    """(n, 3) to (n, 2), in float64: a frozen bias, and a parameter without influence."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 2)
        self.body.bias.requires_grad_(False)
        self.unused = nn.ParameterList([torch.zeros(2)])
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        LOG.append([part.training for part in self.modules()])
        output: Tensor = self.head(self.body(x).tanh())
        return output


def model(module: Any, weights: Tensor, training: Any = (), stale: float = 0.0) -> Network:
    """A Network with these weights; its parts named in `training` are in training mode."""
    made = Network()
    nn.utils.vector_to_parameters(weights, made.parameters())
    for parameter in made.parameters():
        parameter.grad = torch.full_like(parameter, stale)
    for name, part in made.named_modules():
        part.training = name in training
    return made


def optimizer(module: Any, model: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def loss_fn(module: Any) -> Any:
    return loss


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """A squared error, and a root whose slope is infinite where targets have a 0 in column 2."""
    slope = outputs[:, 0] - outputs[:, 0].detach()
    return F.mse_loss(outputs, targets[:, :2]) + (slope + targets[:, 2]).sqrt().mean()


def trained(
    module: Any, weights: Tensor, batches: list[Any], max_norm: float, **options: Any
) -> list[dict[str, Any]]:
    """What each of several steps of one training returns and leaves."""
    made = model(module, weights, **options)
    sgd, reports = optimizer(module, made), []
    for inputs, targets in batches:
        LOG.clear()
        value = module.train_step(made, loss, sgd, inputs, targets, max_norm)
        momenta = [sgd.state.get(p, {}).get("momentum_buffer") for p in made.parameters()]
        pairs = zip(momenta, made.parameters(), strict=True)
        momentum = vector(p * 0 if buffer is None else buffer for buffer, p in pairs)
        left = {"weights": vector(made.parameters()), "momentum": momentum}
        modes = {"forward": list(LOG), "after": [part.training for part in made.modules()]}
        reports.append({"value": value, **left, **modes})
    return reports


def vector(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])
