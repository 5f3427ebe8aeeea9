"""A layer on two ranks."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

import ranks

ranks.JOIN_SECONDS = 3.0  # a test has less time than a student


def passes(module: ModuleType, weight: Tensor, bias: Tensor, xs: dict[str, Tensor]) -> Any:
    """The output of each kind of layer on each rank, and the gradient of x for a gradient of ones."""

    def worker(rank: int, world_size: int) -> Any:
        del world_size
        return {
            kind: layer_on_rank(getattr(module, kind), weight, bias, x) for kind, x in xs.items()
        }

    return ranks.launch(worker, 2)


def layer_on_rank(kind: Any, weight: Tensor, bias: Tensor, x: Tensor) -> Any:
    """Output and gradient of one layer on this rank, or what it raised."""
    linear = nn.Linear(2, 2)
    with torch.no_grad():
        linear.weight.copy_(weight)
        linear.bias.copy_(bias)
    x = x.requires_grad_()
    try:
        output = kind(linear)(x)
        (1 * output).sum().backward()
    except Exception as error:  # noqa: BLE001 - it is reported
        return {"error": type(error).__name__, "message": str(error)}
    return {"output": output.detach(), "gradient of x": x.grad}


def raise_unwritten(module: ModuleType, message: str) -> NoReturn:
    """Raise here what a rank raised, because a part is still to be written."""
    raise NotImplementedError(message)
