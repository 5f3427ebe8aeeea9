"""Live tensors for strides: shapes, pairs of tensors, and views that are looked at later."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def size(module: Any, sizes: list[int]) -> torch.Size:
    """A torch.Size, which arrives as a plain tuple if the judge sends one."""
    return torch.Size(sizes)


def positions(module: Any, x: Tensor, indices: list[Any]) -> list[Any]:
    """What storage_index gives for each index."""
    return [module.storage_index(x, index) for index in indices]


def pairs(module: Any, names: list[str]) -> list[Any]:
    """What shares_storage says of the pairs with these names."""
    x = torch.arange(24.0).reshape(4, 6)
    leaf = torch.randn(4, 6, requires_grad=True)
    result = leaf * 2
    exact = torch.randn(4, 3, dtype=torch.float64)
    made = {
        "a tensor and its transpose": (x, x.t()),
        "a tensor and its last rows": (x, x[2:]),
        "the first and the last rows": (x[:2], x[2:]),
        "the even and the odd columns": (x[:, ::2], x[:, 1::2]),
        "a matrix and one of its rows": (x, x[2]),
        "a tensor and a clone": (x, x.clone()),
        "two tensors of zeros": (torch.zeros(5), torch.zeros(5)),
        "the transpose and a contiguous copy": (x.t(), x.t().contiguous()),
        "a leaf and itself detached": (leaf, leaf.detach()),
        "a result and a slice of it, detached": (result, result[1:].detach()),
        "a leaf and what was computed from it": (leaf, result),
        "a tensor and its bytes as int32": (x, x.view(torch.int32)),
        "a float64 matrix and its last rows": (exact, exact[2:]),
        "a tensor and a float64 copy": (x, x.double()),
        "a leaf and a Parameter with a copy": (leaf, nn.Parameter(leaf.detach().clone())),
    }
    return [module.shares_storage(*made[name]) for name in names]


def windows_after_a_change(module: Any, x: Tensor, size: int, step: int, later: Tensor) -> Any:
    """The windows of x, after x was given other values."""
    made = module.sliding_windows(x, size, step)
    x.copy_(later)
    return made
