"""A network with parameters of every kind, a step after freeze, and the groups of parameter_groups."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import nn

START, OLD_GRADIENT, DECAY = 1.0, 7.0, 0.25


class Network(nn.Module):
    """A network with names that begin alike and parameters of zero to four dimensions. It is never called."""

    def __init__(self, more: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.zeros(1, 4))
        self.encoder = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3))
        self.encoder2 = nn.Linear(3, 3, bias=False)
        self.my = nn.ModuleDict({"encoder": nn.Linear(3, 3)})
        self.norm = nn.BatchNorm1d(3)
        self.layer_norm = nn.LayerNorm((2, 3))
        self.conv = nn.Conv2d(2, 3, 2)
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Sequential(nn.Linear(3, 2))
        self.head_0 = nn.Linear(3, 2)
        self.more = nn.ParameterList([nn.Parameter(torch.ones(*shape)) for shape in more])


def network(
    module: Any,
    more: Sequence[Sequence[int]] = (),
    *,
    frozen: Sequence[str] = (),
    evaluating: Sequence[str] = (),
    gradient: float | None = OLD_GRADIENT,
) -> Network:
    """A Network with `more` parameters of these shapes. All are ones, and hold this old gradient or none.

    Parameters in `frozen` require no gradient. Submodules in `evaluating` are in evaluation mode.
    """
    made = Network(more)
    for name, parameter in made.named_parameters():
        nn.init.constant_(parameter, START).requires_grad_(name not in frozen)
        parameter.grad = None if gradient is None else torch.full_like(parameter, gradient)
    for name, part in made.named_modules():
        part.training = name not in evaluating
    return made


def tied(module: Any, more: Sequence[Sequence[int]]) -> Network:
    """A Network with a decoder that shares the weight of the embedding."""
    made = Network(more)
    made.decoder = nn.Linear(3, 5, bias=False)
    made.decoder.weight = made.embedding.weight
    return made


def types_of_counts(module: Any, model: nn.Module) -> list[str]:
    """The names of the types of the numbers that count_parameters returns."""
    return [type(number).__name__ for number in module.count_parameters(model)]


def stepped(
    module: Any, model: nn.Module, names: Sequence[str], slopes: dict[str, float]
) -> dict[str, Any]:
    """The result of freeze, and the weights after a step of SGD on a loss with these slopes."""
    result = module.freeze(model, names)
    # Read from attributes: named_parameters() could be made to return others.
    parameters = {name: attrgetter(name)(model) for name in slopes}
    loss = torch.zeros((), requires_grad=True)
    for name, slope in slopes.items():
        loss = loss + slope * parameters[name].sum()
    loss.backward()
    # The step of SGD with a learning rate of 1. Importing PyTorch's SGD would take most of a second.
    with torch.no_grad():
        for parameter in parameters.values():
            if parameter.grad is not None:
                parameter.sub_(parameter.grad + DECAY * parameter)
    weights = {name: parameter.detach() for name, parameter in parameters.items()}
    return {"result": result, "weights": weights}


def groups(module: Any, model: nn.Module, weight_decay: float) -> list[Any]:
    """The result of parameter_groups, with names in place of the model's Parameter objects."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    result = []
    for group in module.parameter_groups(model, weight_decay):
        params = group["params"]
        # Read by position, so that a set is refused.
        items = [params[i] for i in range(len(params))]
        shown = [names.get(id(item), f"(type: {type(item).__name__})") for item in items]
        result.append({**group, "params": shown})
    return result
