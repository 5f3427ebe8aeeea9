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


def pairs(module: Any, questions: list[tuple[str, str, str, bool]]) -> list[Any]:
    """What shares_storage says of pairs: an expression of x of a kind, and one of y.

    y is x itself, or, where the last entry says no, a copy that nothing but its memory tells from x.
    """
    answers = []
    for kind, left, right, shared in questions:
        x = tensor_of(kind)
        y = x if shared else copy_of(x)
        names = {"torch": torch, "nn": nn, "x": x, "y": y}
        answers.append(module.shares_storage(eval(left, names), eval(right, names)))
    return answers


def tensor_of(kind: str) -> Tensor:
    """A matrix: "data", a "leaf" that requires a gradient, a "result", or in float64 ("exact")."""
    x = torch.randn(4, 6, dtype=torch.float64 if kind == "exact" else torch.float32)
    if kind in ("leaf", "result"):
        x.requires_grad_()
    return x * 2 if kind == "result" else x


def copy_of(x: Tensor) -> Tensor:
    """A copy in memory of its own, a leaf where x is one."""
    return x.detach().clone().requires_grad_(x.requires_grad) if x.is_leaf else x.clone()


def windows_after_a_change(module: Any, x: Tensor, size: int, step: int, later: Tensor) -> Any:
    """The windows of x, after x was given other values."""
    made = module.sliding_windows(x, size, step)
    x.copy_(later)
    return made
