"""A small model, the contents of a block's dict, and the hooks that are left."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def model(module: Any, in_place: bool = False) -> nn.Sequential:
    """A model from x (n, 2) to relu of (x0 - x1, 2 * x0, -x1), and from there to the sum (n, 1)."""
    made = nn.Sequential(nn.Linear(2, 3, False), nn.ReLU(in_place), nn.Linear(3, 1, False))
    weights = torch.tensor([[1.0, -1.0], [2.0, 0.0], [0.0, -1.0]]), torch.tensor([[1.0, 1.0, 1.0]])
    made.load_state_dict({"0.weight": weights[0], "2.weight": weights[1]})
    return made


def left(model: nn.Sequential) -> int:
    """The number of hooks of the model and its parts."""
    tables = [table for part in model.modules() for table in vars(part).items()]
    return sum(len(table) for name, table in tables if name.endswith("_hooks"))


def captured(module: Any, name: str, model: nn.Sequential, names: list[str], x: Tensor) -> Any:
    """The dict of a block after one pass, whether its values are in a graph, and the hooks after the block."""
    with getattr(module, name)(model, names) as values:
        model(x).sum().backward()
    graph = [getattr(value, "requires_grad", False) for value in values.values()]
    report = {"values": values, "graph": graph, "reached": model[0].weight.grad is not None}
    return {**report, "left": left(model)}


def interrupted(module: Any, name: str, model: nn.Sequential, x: Tensor) -> dict[str, Any]:
    """The dict of a block that raised, the hooks after it, and whether its exception came out."""
    values, came_out = {}, False
    try:
        with getattr(module, name)(model, ["0"]) as values:
            model(x).sum().backward()
            raise LookupError
    except LookupError:
        came_out = True
    return {"values": values, "came out": came_out, "left": left(model)}


def listed(module: Any, model: nn.Sequential, x: Tensor) -> dict[str, Any]:
    """The result of trace_shapes, and the hooks after it."""
    return {"shapes": module.trace_shapes(model, x), "left": left(model)}
