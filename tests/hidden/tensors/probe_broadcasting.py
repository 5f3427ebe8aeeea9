"""Shapes as torch.Size, which arrive as plain tuples if the judge sends them."""

from __future__ import annotations

from typing import Any

import torch


def size(module: Any, sizes: list[int]) -> torch.Size:
    """A torch.Size of these sizes."""
    return torch.Size(sizes)
