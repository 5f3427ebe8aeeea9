# right: a class that holds device and dtype, match statements, sets of names
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Mover:
    device: torch.device
    dtype: torch.dtype | None

    def __post_init__(self) -> None:
        if self.dtype is not None and not self.dtype.is_floating_point:
            raise ValueError(f"`dtype` has to be floating-point, and is {self.dtype}")

    def __call__(self, batch: Any) -> Any:
        match batch:
            case Tensor():
                return self.tensor(batch)
            case dict():
                return dict(zip(batch.keys(), map(self, batch.values()), strict=True))
            case list():
                return list(map(self, batch))
            case tuple() if hasattr(batch, "_replace"):
                return batch._replace(**{f: self(getattr(batch, f)) for f in batch._fields})
            case tuple():
                return tuple(map(self, batch))
        return batch

    def tensor(self, x: Tensor) -> Tensor:
        keeps = self.dtype is None or x.dtype.is_complex or not x.dtype.is_floating_point
        return x.to(self.device, x.dtype if keeps else self.dtype)


def to_device(batch: Any, device: torch.device | str, dtype: torch.dtype | None = None) -> Any:
    return Mover(torch.device(device), dtype)(batch)


def _attributes(module: nn.Module, prefix: str = "") -> dict[str, Tensor]:
    found = {prefix + name: x for name, x in module.__dict__.items() if torch.is_tensor(x)}
    for name, child in module._modules.items():
        if child is not None:
            found.update(_attributes(child, f"{prefix}{name}."))
    return found


def unregistered(module: nn.Module) -> list[str]:
    names = list(_attributes(module))
    names.sort()
    return names


def misplaced(module: nn.Module, device: torch.device | str) -> list[str]:
    place = torch.device(device)
    every = {
        **_attributes(module),
        **dict(module.named_parameters()),
        **dict(module.named_buffers()),
    }
    here = set()
    for name, x in every.items():
        if x.device.type == place.type:
            if place.index is None or x.device.index is None or place.index == x.device.index:
                here.add(name)
    return sorted(every.keys() - here)
