"""The examples' tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def outcomes(module: Any, values: Tensor) -> list[Any]:
    """The results of in_place_outcome for a leaf, a result and plain data."""
    leaf, w = values.clone().requires_grad_(), torch.ones(3, requires_grad=True)
    result = leaf * 1
    return [
        module.in_place_outcome(leaf, lambda x: x * x),
        module.in_place_outcome(result, lambda x: x * x),
        module.in_place_outcome(result, lambda x: x + 1),
        module.in_place_outcome(values, lambda x: x * x),
        module.in_place_outcome(values, lambda x: x * w),
    ]


def parameters(module: Any, values: Tensor, grad: Tensor) -> list[Tensor]:
    """One parameter with a gradient."""
    parameter = nn.Parameter(values)
    parameter.grad = grad
    return [parameter]
