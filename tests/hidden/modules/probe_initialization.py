"""Weights of every kind, modules of every class, and their contents after a call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

MARK = 7.0


class Adapter(nn.Linear):
    """A subclass of a layer, which counts as one."""


class Picture(nn.Conv2d):
    """A subclass of a layer, which counts as one."""


class Table(nn.Embedding):
    """A subclass of a layer, which counts as one."""


class Norm(nn.BatchNorm1d):
    """A subclass of a layer, which counts as one."""


class Own(nn.Module):
    """A module that is not a layer of PyTorch's, although its parameters have the names of a layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 3))
        self.bias = nn.Parameter(torch.ones(3))


# Classes of this probe, not of PyTorch.
OWN = {made.__name__: made for made in (Adapter, Picture, Table, Norm, Own)}


def layer(module: Any, kind: str, *sizes: Any, frozen: bool = False, **options: Any) -> nn.Module:
    """A module with MARK in all of its parameters, gradients and buffers; a class of OWN gets a child."""
    if kind in OWN:
        made: nn.Module = OWN[kind](*sizes, **options)
        made.add_module("inner", nn.Linear(2, 3))
    else:
        made = getattr(nn, kind)(*sizes, **options)
    for tensor in (*made.parameters(), *made.buffers()):
        tensor.data.fill_(MARK)
    for parameter in made.parameters():
        parameter.grad = torch.full_like(parameter, MARK)
        parameter.requires_grad_(not frozen)
    return made


def chain(module: Any, *layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


def parameter(module: Any, shape: list[int], *, requires_grad: bool) -> nn.Parameter:
    """A Parameter with a gradient."""
    made = nn.Parameter(torch.zeros(shape), requires_grad=requires_grad)
    made.grad = torch.full_like(made, MARK)
    return made


def view_filled(module: Any, name: str, rows: int, columns: int) -> dict[str, bool]:
    """Whether a call fills a transposed view of every second column and nothing beside it, and returns it."""
    memory = torch.zeros(columns, 2 * rows, dtype=torch.float64)
    weight = memory[:, ::2].t()
    result = getattr(module, name)(weight)
    filled, beside = (bool(memory[:, start::2].any()) for start in (0, 1))
    return {"filled": filled, "beside": beside, "same": result is weight}


def repeated(module: Any, name: str, weight: Tensor) -> list[Tensor]:
    """Two draws after a seed, and one after the same seed again."""
    draws = []
    torch.manual_seed(3)
    for _ in range(2):
        getattr(module, name)(weight)
        draws.append(weight.detach().clone())
    torch.manual_seed(3)
    getattr(module, name)(weight)
    return [*draws, weight.detach().clone()]
