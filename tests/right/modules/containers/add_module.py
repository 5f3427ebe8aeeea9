# right: containers filled with add_module and append, one in-place ReLU for all, torch.add
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import torch
from torch import Tensor, nn


class MLP(nn.Module):
    """One ReLU module stands at several places."""

    layers: nn.Sequential

    def __init__(self, widths: Sequence[int]) -> None:
        widths = tuple(widths)
        if not all(width >= 1 for width in widths) or len(widths) <= 1:
            raise ValueError("MLP needs two or more widths, all at least 1")
        nn.Module.__init__(self)
        self.layers = nn.Sequential()
        relu = nn.ReLU(inplace=True)
        for number, (fan_in, fan_out) in enumerate(zip(widths, widths[1:])):
            if number:
                self.layers.add_module(str(2 * number - 1), relu)
            self.layers.add_module(str(2 * number), nn.Linear(fan_in, fan_out))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class ResidualStack(nn.Module):
    def __init__(self, blocks: Iterable[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList()
        for block in blocks:
            self.blocks.append(block)

    def forward(self, x: Tensor, skip: Collection[int] = ()) -> Tensor:
        possible = range(len(self.blocks))
        if any(index not in possible for index in skip):
            raise ValueError(f"skip={list(skip)}, there are {len(possible)} blocks")
        x = x.clone()
        for index in sorted(set(possible) - set(skip)):
            x = torch.add(x, self.blocks[index](x))
        return x


def _hides(value: object) -> bool:
    match value:
        case dict():
            return _hides(tuple(value.values()))
        case list() | tuple():
            return any(isinstance(item, nn.Module | nn.Parameter) for item in value)
    return False


def plain_containers(model: nn.Module) -> list[str]:
    return [
        ".".join([*path.split("."), name] if path else [name])
        for path, module in model.named_modules()
        for name, value in module.__dict__.items()
        if name[0] != "_" and _hides(value)
    ]
