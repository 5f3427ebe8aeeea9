"""Weights of every kind, modules of every class, and what a call leaves in them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

MARK = 7.0
# Subclasses, each by its base. Each has a child of its own.
BASES = {"Adapter": nn.Linear, "Picture": nn.Conv2d, "Table": nn.Embedding, "Norm": nn.BatchNorm1d}


class Own(nn.Module):
    """No layer of PyTorch's, though its parameters bear the same names."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 3))
        self.bias = nn.Parameter(torch.ones(3))
        self.first = nn.Linear(3, 3)


def layer(module: Any, kind: str, *sizes: Any, **options: Any) -> nn.Module:
    """A module with this mark in all of its parameters, gradients and buffers."""
    frozen, double = options.pop("frozen", False), options.pop("double", False)
    own: dict[str, Any] = {"Own": Own}
    own |= {name: type(name, (base,), {}) for name, base in BASES.items()}
    made: nn.Module = (own.get(kind) or getattr(nn, kind))(*sizes, **options)
    if kind in BASES:
        made.add_module("inner", nn.Linear(2, 3))
    if double:
        made.double()
    with torch.no_grad():
        for tensor in (*made.parameters(), *made.buffers()):
            tensor.fill_(MARK)
    for parameter in made.parameters():
        parameter.grad = torch.full_like(parameter, MARK)
        parameter.requires_grad_(not frozen)
    return made


def chain(module: Any, *layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


def weight(module: Any, kind: str, shape: list[int], like: Tensor) -> Tensor:
    """A weight of the dtype of `like`: a Parameter, frozen or not, or a view of every second column."""
    if kind == "view":
        view: Tensor = torch.zeros(shape[1], 2 * shape[0], dtype=like.dtype)[:, ::2].t()
        return view
    made = nn.Parameter(torch.zeros(shape, dtype=like.dtype), requires_grad=kind == "Parameter")
    made.grad = torch.full_like(made, MARK)
    return made


def filled(module: Any, name: str, weight: Tensor) -> dict[str, Any]:
    """What a call leaves in the memory of a weight, and in the rest of it."""
    memory, base = weight.detach(), (weight if weight._base is None else weight._base).detach()
    result = getattr(module, name)(weight)
    facts = {"same": result is weight, "grad_fn": weight.grad_fn is not None}
    values = memory.clone()
    memory.zero_()
    return {**facts, "values": values, "rest": base.abs().max().item()}


def repeated(module: Any, name: str, weight: Tensor) -> list[Tensor]:
    """Two draws after a seed, and one after the same seed again."""
    draws = []
    for seed in (3, None, 3):
        if seed is not None:
            torch.manual_seed(seed)
        getattr(module, name)(weight)
        draws.append(weight.detach().clone())
    return draws
