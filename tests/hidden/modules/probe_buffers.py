"""The life of one layer, as raw data, and a module with every kind of tensor."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def facts(layer: nn.Module) -> dict[str, dict[str, Any]]:
    """All tensors of the layer: how it holds them, where they are, and their values, if they have any."""
    saved, tensors_of = layer.state_dict(), {}
    plain = {name: value for name, value in vars(layer).items() if isinstance(value, Tensor)}
    for kind, tensors in (
        ("parameter", dict(layer.named_parameters())),
        ("buffer", dict(layer.named_buffers(remove_duplicate=False))),
        ("plain attribute", plain),
    ):
        for name, tensor in tensors.items():
            tensors_of[name] = {
                "kind": "non-persistent buffer" if kind == "buffer" and name not in saved else kind,
                "where": [str(tensor.device), str(tensor.dtype), list(tensor.shape)],
                "requires_grad": tensor.requires_grad,
                "graph": tensor.grad_fn is not None,
                "values": None if tensor.is_meta else tensor.detach().clone(),
            }
    return tensors_of


def life(module: Any, steps: list[Any], features: int = 5, grad: bool = False) -> dict[str, Any]:
    """A layer's tensors before and after each step, and its results: a step is a batch or what to do."""
    layer, other = module.RunningCenter(features), None
    results, seen = [], [facts(layer)]
    for step in steps:
        if isinstance(step, Tensor):
            results.append(layer(step.requires_grad_(grad)).detach())
        elif isinstance(step, dict):
            layer.load_state_dict(step)
        elif step == "reload":
            other, layer = layer, module.RunningCenter(features)
            layer.load_state_dict(other.state_dict())
        elif step == "copy":
            other, layer = layer, copy.deepcopy(layer)
        else:
            layer.to("meta") if step == "meta" else getattr(layer, step)()
        seen.append(facts(layer))
    after = None if other is None else facts(other)
    return {"seen": seen, "results": results, "keys": list(layer.state_dict()), "other": after}


class Inner(nn.Module):
    """Names as in the outer module, for other kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(2), persistent=False)
        self.register_buffer("mask", torch.ones(2))
        self.scale = torch.ones(2, requires_grad=True) * 2
        self._cache = torch.ones(2)
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)


class Outer(nn.Module):
    """Parameters, buffers and plain attributes, here and further inside, and what is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.encoder = nn.Sequential(nn.Linear(2, 3), nn.Sequential(Inner(), nn.BatchNorm1d(3)))
        self.weights = nn.ParameterList([torch.ones(1)])
        self.register_parameter("bias", None)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("mask", torch.ones(3, dtype=torch.bool), persistent=False)
        self.register_buffer("nothing", None)
        self.table, self.step, self.log = torch.ones(2, 2), torch.tensor(7), torch.ones(0)
        self.size, self.name, self.array, self.empty = 3, "outer", np.ones(2), None
        self.several, self.by_name = [torch.ones(1)], {"a": torch.ones(1)}


def module_of(module: Any, kind: str) -> nn.Module:
    kinds: dict[str, type[nn.Module]] = {"Outer": Outer, "Inner": Inner, "Empty": nn.Sequential}
    return kinds[kind]()
