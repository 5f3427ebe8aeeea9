"""Layers on the ranks of a launch.

Ranks are forks and take time, so several tests share one launch.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

import ranks

ranks.JOIN_SECONDS = 3.0  # shorter than for students, because tests have little time


def linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A linear layer with these numbers."""
    outputs, inputs = weight.shape
    layer = nn.Linear(inputs, outputs, bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer


def layers_of(module: ModuleType, case: dict[str, Any]) -> Any:
    """The layer of a case, or its two layers in turn with an activation in between."""
    made = [getattr(module, kind)(linear(*numbers)) for kind, numbers in case["layers"]]
    return made[0] if len(made) == 1 else nn.Sequential(made[0], nn.Tanh(), made[1])


def passes(module: ModuleType, case: dict[str, Any], rank: int) -> dict[str, Any]:
    """The parameters, output and gradients of a rank's layers, up to the first error."""
    report: dict[str, Any] = {}
    try:
        layers = layers_of(module, case)
        report["parameters"] = {n: p.detach().clone() for n, p in layers.named_parameters()}
        if "x" not in case:
            return report
        for name, values in case.get("numbers", {}).items():
            own = getattr(layers, name, None)
            if own is not None and own.shape == values[rank].shape:
                own.data.copy_(values[rank])
        x = case["x"][rank].clone().requires_grad_()
        output = layers(x)
        report["output"] = output.detach().clone()
        (output * case["incoming"][rank]).sum().backward()
        report["x"] = x.grad
        report["gradients"] = {name: p.grad for name, p in layers.named_parameters()}
    except Exception as error:  # noqa: BLE001 - the report says it
        report["error"], report["message"] = type(error).__name__, str(error)
    return report


def group(module: ModuleType, count: int, cases: dict[str, Any]) -> Any:
    """The reports of all ranks of one launch, case by case, or the message of a failed launch."""

    def worker(rank: int, world_size: int) -> dict[str, Any]:
        del world_size
        reports = {}
        for name, case in cases.items():
            reports[name] = passes(module, case, rank)
            message = reports[name].get("message", "")
            if "Connection closed" in message or "Timed out" in message:
                break  # the next case would wait in vain, too
        return reports

    try:
        return ranks.launch(worker, count)
    except RuntimeError as error:
        return str(error)


def raise_unwritten(module: ModuleType, message: str) -> NoReturn:
    """Raise a rank's NotImplementedError in this process: a part is not written yet."""
    raise NotImplementedError(message)
