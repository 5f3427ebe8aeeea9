"""Shapes, pairs of tensors, and views that are read after a change."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def size(module: Any, sizes: list[int]) -> torch.Size:
    """A torch.Size. If the judge sent one, it would arrive as a plain tuple."""
    return torch.Size(sizes)


def positions(module: Any, x: Tensor, indices: list[Any]) -> list[Any]:
    """The results of storage_index for these indices."""
    return [module.storage_index(x, index) for index in indices]


def pairs(module: Any, x: Tensor, questions: list[tuple[str, str, str]]) -> dict[str, Any]:
    """The answers of shares_storage for pairs of an expression of x and one of y, which is "x" or a "copy"."""
    answers = {}
    for left, right, y in questions:
        x = x.clone()
        names = {"torch": torch, "nn": nn, "x": x, "y": x if y == "x" else x.clone()}
        answer = module.shares_storage(eval(left, names), eval(right, names))
        answers[f"{left}, {right}, where y is {y}"] = answer
    return answers


def windows_after_a_change(module: Any, x: Tensor, size: int, step: int, later: Tensor) -> Any:
    """The windows of x, after other values were copied into x."""
    made = module.sliding_windows(x, size, step)
    x.copy_(later)
    return made
