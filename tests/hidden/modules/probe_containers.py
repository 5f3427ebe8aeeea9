"""Blocks that keep their inputs and outputs, modules that hide layers, and the contents of containers."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

CLASSES = (nn.Linear, nn.ReLU, nn.Sequential, nn.ModuleList)


class Block(nn.Module):
    """tanh(sin(x) * weight): autograd keeps the input and the output, and so does the block, without a copy."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        output = torch.tanh(torch.sin(x) * self.weight)
        self.inputs.append(x.detach())
        self.outputs.append(output.detach())
        return output


def block(module: Any, weight: Tensor) -> Block:
    return Block(weight)


def generator(module: Any, weights: list[Tensor]) -> Iterator[Block]:
    """A generator of new blocks."""
    return (Block(weight) for weight in weights)


def class_of(value: Any) -> str:
    """The name of the value's class in torch.nn, or the full name of its own class if there is none."""
    own = type(value)
    for kind in CLASSES:
        if issubclass(own, kind):
            return kind.__name__
    return f"{own.__module__}.{own.__qualname__}"


def layers_of(module: Any, widths: list[int]) -> dict[str, Any]:
    """The class of an MLP's `layers`, and the classes of its items."""
    layers = module.MLP(widths).layers
    return {"class": class_of(layers), "items": ", ".join(map(class_of, layers))}


def blocks_of(module: Any, blocks: Any) -> dict[str, Any]:
    """The class of a stack's `blocks`, and the weights of its items."""
    kept = module.ResidualStack(blocks).blocks
    return {"class": class_of(kept), "weights": [one.weight.detach() for one in kept]}


def calls(
    module: Any, weights: list[Tensor], x: Tensor, skip: Collection[int]
) -> dict[str, list[Any]]:
    """How often a forward pass calls each block and runs its hook, and the inputs and outputs afterwards.

    The pass may end with a ValueError about `skip`.
    """
    blocks = [Block(weight) for weight in weights]
    hooked: list[Block] = []
    for one in blocks:
        one.register_forward_hook(lambda called, _given, _output: hooked.append(called))
    stack = module.ResidualStack(blocks)
    with contextlib.suppress(ValueError), torch.no_grad():
        stack(x, skip)
    return {
        "called": [len(one.inputs) for one in blocks],
        "hooked": [hooked.count(one) for one in blocks],
        "inputs": [x for one in blocks for x in one.inputs],
        "outputs": [output for one in blocks for output in one.outputs],
    }


def holding(module: Any, parts: dict[str, dict[str, str]]) -> nn.Module:
    """A module with a submodule for each dotted path, which has attributes of these kinds."""
    outer = nn.Module()
    for path, attributes in parts.items():
        part = outer
        for name in path.split(".") if path else []:
            part.add_module(name, nn.Module())
            part = part.get_submodule(name)
        for name, kind in attributes.items():
            setattr(part, name, values()[kind])
    return outer


class Pair(NamedTuple):
    """A subclass of tuple."""

    first: int
    second: nn.Module


def values() -> dict[str, Any]:
    """An attribute of each kind."""
    linear, frozen = nn.Linear(2, 2), nn.Parameter(torch.ones(2), requires_grad=False)
    return {
        "list": [linear],
        "tuple": (linear,),
        "dict": {"first": linear, 2: linear},
        "OrderedDict": collections.OrderedDict(first=linear),
        "NamedTuple": Pair(1, linear),
        "list of Parameters": [nn.Parameter(torch.ones(2))],
        "dict of frozen Parameters": {"first": frozen},
        "list with a module first": [linear, 3],
        "list with a module last": [None, 3, linear],
        "list of modules without parameters": [nn.ReLU()],
        "list of numbers": [1, 2],
        "list of tensors": [torch.ones(2)],
        "list of tensors that require a gradient": [torch.ones(2).requires_grad_()],
        "nn.LSTM": nn.LSTM(2, 2),
        "nn.ModuleList": nn.ModuleList([linear]),
        "nn.Sequential": nn.Sequential(linear),
    }


def sharing(module: Any, parts: list[str], names: list[str]) -> nn.Module:
    """A model of two parts: the first has the second in a list, and the second has a layer in a list."""
    first, second = nn.Module(), nn.Module()
    setattr(first, names[0], [second])
    setattr(second, names[1], [nn.Linear(2, 2)])
    return nn.ModuleDict(dict(zip(parts, (first, second), strict=True)))
