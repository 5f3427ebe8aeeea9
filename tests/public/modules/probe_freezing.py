"""A small network, and its groups."""

from __future__ import annotations

from typing import Any

from torch import nn


def network(module: Any) -> nn.Module:
    """Parameters encoder.0.weight (3, 2), encoder.0.bias (3,), encoder2.weight (4, 3), norm.* (4,)."""
    parts = {
        "encoder": nn.Sequential(nn.Linear(2, 3), nn.ReLU()),
        "encoder2": nn.Linear(3, 4, bias=False),
        "norm": nn.BatchNorm1d(4),
    }
    model = nn.ModuleDict(parts)
    model["norm"].bias.requires_grad_(False)
    return model


def groups(module: Any, model: nn.Module, weight_decay: float) -> Any:
    """The result of parameter_groups, with parameters replaced by their names."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [
        {**group, "params": [names.get(id(p), type(p).__name__) for p in group["params"]]}
        for group in module.parameter_groups(model, weight_decay)
    ]
