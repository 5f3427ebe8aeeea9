"""The examples, with the student's Values."""

from __future__ import annotations

from typing import Any

import torch


def product(module: Any) -> Any:
    """Result and gradients of x * y + x at x = 3 and y = 4."""
    x, y = module.Value(3.0), module.Value(4.0)
    result = x * y + x
    result.backward()
    return float(result.data), float(x.grad), float(y.grad)


def row(module: Any) -> Any:
    """The gradients of a (2, 3) and of a (3,) that is added to it, if the gradient of the sum is all twos."""
    x, b = module.Value(torch.ones(2, 3).double()), module.Value(torch.zeros(3).double())
    (x + b).backward(torch.full((2, 3), 2.0).double())
    return x.grad, b.grad


def layer(module: Any) -> Any:
    """Data and gradients of relu(x @ w)."""
    x, w = (
        module.Value(torch.tensor([[1.0, 2.0]]).double()),
        module.Value(torch.tensor([[1.0], [1.0]]).double()),
    )
    result = (x @ w).relu().sum()
    result.backward()
    return float(result.data), x.grad, w.grad
