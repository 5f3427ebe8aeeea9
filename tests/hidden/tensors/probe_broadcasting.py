"""Shapes of the type torch.Size. If the judge sent them, they would arrive as plain tuples."""

from __future__ import annotations

from typing import Any

import torch


def size(module: Any, sizes: list[int]) -> torch.Size:
    """A torch.Size of these sizes."""
    return torch.Size(sizes)
