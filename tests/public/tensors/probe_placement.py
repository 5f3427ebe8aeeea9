"""Batches and modules, and reports in words: tensors on meta cannot be sent to the judge."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Sample(NamedTuple):
    """An image and its label."""

    image: Tensor
    label: Tensor


class Model(nn.Module):
    """A module with a parameter, a buffer, and a tensor that .to() leaves behind."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.encoder = nn.Linear(2, 2)
        self.encoder.table = torch.ones(3)
        self.register_buffer("mean", torch.zeros(2))
        self.to(device)


def words(value: Any) -> Any:
    """A batch with a word for each tensor."""
    if isinstance(value, Tensor):
        return f"{value.dtype} on {value.device}"
    if isinstance(value, dict):
        return {key: words(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"type": type(value).__name__, "fields": [words(item) for item in value]}
    return [words(item) for item in value] if isinstance(value, (list, tuple)) else value


def moved(module: Any) -> Any:
    """A nested batch on meta, in float64."""
    sample = Sample(torch.ones(2), torch.tensor([1]))
    batch = {"sample": sample, "views": [torch.ones(3)], "name": "left"}
    return words(module.to_device(batch, "meta", torch.float64))


def names(module: Any, function: str, device: str, *arguments: Any) -> Any:
    """The names that a function returns for a model on a device."""
    return getattr(module, function)(Model(device), *arguments)
