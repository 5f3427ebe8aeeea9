"""A network with parameters of every kind, and what parameter_groups makes of one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Network(nn.Module):
    """Names that begin alike, and parameters of zero to four dimensions; it is never called."""

    def __init__(self, *, tied: bool, rows: int, extra: dict[str, Any]) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.zeros(1, 4))
        self.scales = nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))
        self.nothing = nn.Parameter(torch.zeros(0, 3))
        for name, shape in extra.items():
            self.register_parameter(name, nn.Parameter(torch.ones(shape)))
        self.encoder = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3))
        self.encoder2 = nn.Linear(3, 3, bias=False)
        self.my = nn.ModuleDict({"encoder": nn.Linear(3, 3)})
        self.norm = nn.BatchNorm1d(3)
        self.layer_norm = nn.LayerNorm((2, 3))
        self.conv = nn.Conv2d(2, 3, 2)
        self.embedding = nn.Embedding(rows, 3)
        self.head = nn.Sequential(nn.Linear(3, 2))
        self.head_0 = nn.Linear(3, 2)
        self.register_buffer("steps", torch.zeros(7))
        if tied:
            self.decoder = nn.Linear(3, rows, bias=False)
            self.decoder.weight = self.embedding.weight


def network(
    module: Any,
    *,
    frozen: Any = (),
    stale: bool = False,
    evaluating: Any = (),
    tied: bool = False,
    rows: int = 5,
    extra: Any = None,
) -> Network:
    """A Network, of which some parameters are frozen and some submodules in evaluation mode.

    With `stale` every parameter has a gradient from before. The embedding has `rows`, and there are `extra`
    parameters of these shapes.
    """
    model = Network(tied=tied, rows=rows, extra=extra or {})
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
        parameter.grad = torch.full_like(parameter, 7.0) if stale else None
    for name, part in model.named_modules():
        part.training = name not in evaluating
    return model


def part(module: Any, kind: str, *arguments: Any) -> nn.Module:
    """A module of torch.nn alone."""
    made: nn.Module = getattr(nn, kind)(*arguments)
    return made


def groups(module: Any, model: nn.Module, weight_decay: float) -> dict[str, Any]:
    """The result of parameter_groups, with names in the place of the model's own Parameter objects."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    result = module.parameter_groups(model, weight_decay)
    reports: list[Any] = []
    for group in result if isinstance(result, (list, tuple)) else []:
        params = group.get("params") if isinstance(group, dict) else None
        items = params if isinstance(params, (list, tuple)) else []
        shown = [names.get(id(item), f"(a {type(item).__name__})") for item in items]
        report: dict[str, Any] = {"type": type(params).__name__, "params": shown}
        if isinstance(group, dict):
            report |= {"keys": list(map(str, group)), "weight_decay": group.get("weight_decay")}
        reports.append(report)
    return {"type": type(result).__name__, "groups": reports}
