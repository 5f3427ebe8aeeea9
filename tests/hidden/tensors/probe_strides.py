"""Live tensors for strides: shapes, pairs of tensors, and views that are looked at later."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def size(module: Any, sizes: list[int]) -> torch.Size:
    """A torch.Size, which arrives as a plain tuple if the judge sends one."""
    return torch.Size(sizes)


def part(module: Any, x: Tensor, start: int, stop: int) -> Tensor:
    """A slice, with more of its storage before and behind it."""
    return x[..., start:stop]


def positions(module: Any, x: Tensor, indices: list[Any]) -> list[Any]:
    """What storage_index gives for each index."""
    return [module.storage_index(x, index) for index in indices]


def pairs(module: Any, asked: list[Any]) -> list[Any]:
    """What shares_storage says of each of these pairs; the second first where it is `asked` so."""
    x = torch.arange(24.0).reshape(4, 6)
    leaf = torch.randn(4, 6, requires_grad=True)
    result = leaf * 2
    wide, exact = torch.randn(4, 3, dtype=torch.complex64), torch.randn(4, 3).double()
    made = {
        "a tensor and its transpose": (x, x.t()),
        "a tensor and its last rows": (x, x[2:]),
        "the first and the last rows": (x[:2], x[2:]),
        "the even and the odd columns": (x[:, ::2], x[:, 1::2]),
        "a tensor and a clone": (x, x.clone()),
        "two tensors of zeros": (torch.zeros(5), torch.zeros(5)),
        "the transpose and a contiguous copy": (x.t(), x.t().contiguous()),
        "a leaf and itself detached": (leaf, leaf.detach()),
        "a leaf and a Parameter of a part": (leaf, nn.Parameter(leaf.detach()[1:])),
        "a result and a slice of it, detached": (result, result[1:].detach()),
        "a leaf and what was computed from it": (leaf, result),
        "a tensor and its bytes as int32": (x, x.view(torch.int32)),
        "a float64 matrix and one of its rows": (exact, exact[2]),
        "complex numbers and their imaginary parts": (wide, torch.view_as_real(wide)[..., 1]),
    }
    return [module.shares_storage(*made[name][:: -1 if turned else 1]) for name, turned in asked]


def windows(
    module: Any, x: Tensor, size: int, step: int, later: Tensor, grad: bool
) -> dict[str, Any]:
    """Where the windows of x lie, and what they hold after x was given other values."""
    made = module.sliding_windows(x.requires_grad_(grad), size, step)
    places = [t.untyped_storage().data_ptr() if isinstance(t, Tensor) else None for t in (x, made)]
    # Each element once, also those of an expanded tensor.
    once = tuple(slice(None if stride else 1) for stride in x.stride())
    with torch.no_grad():
        x[once].copy_(later[once])
    return {"storages": places, "later": made}
