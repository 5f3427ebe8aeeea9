"""Tensors for shares_storage and sliding_windows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def pairs(module: Any) -> dict[str, Any]:
    """The answers of shares_storage for pairs of tensors."""
    x = torch.arange(6.0)
    return {
        "x and x[3:]": module.shares_storage(x, x[3:]),
        "x[:3] and x[3:]": module.shares_storage(x[:3], x[3:]),
        "x and x[:3]": module.shares_storage(x, x[:3]),
        "x and a copy": module.shares_storage(x, x.clone()),
    }


def windows(module: Any, size: int, step: int) -> list[Any]:
    """The windows over 0..9, when they were made and after x was filled with -1."""
    x = torch.arange(20.0)[:10]
    made = module.sliding_windows(x, size, step)
    first = made.clone() if isinstance(made, Tensor) else made
    x.fill_(-1)
    return [first, made]
