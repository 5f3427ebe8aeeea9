# right: a NamedTuple for the counts, OrderedDicts for the groups, names matched part by part
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from torch import nn


class Counts(NamedTuple):
    total: int
    trainable: int


def count_parameters(model: nn.Module) -> Counts:
    counts = Counts(0, 0)
    for parameter in model.parameters():
        size = parameter.nelement()
        counts = Counts(counts.total + size, counts.trainable + size * parameter.requires_grad)
    return counts


def _covers(name: str, key: str) -> bool:
    parts = name.split(".")
    return key.split(".")[: len(parts)] == parts


def freeze(model: nn.Module, names: Sequence[str]) -> list[str]:
    named = OrderedDict(model.named_parameters())
    unknown = [name for name in names if not any(_covers(name, key) for key in named)]
    if unknown:
        raise ValueError(f"these names cover nothing: {', '.join(unknown)}")
    result: list[str] = []
    for key, parameter in named.items():
        if any(_covers(name, key) for name in names):
            parameter.grad = None
            parameter.requires_grad_(False)
            result += [key]
    print("frozen:", result)
    return result


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    if weight_decay < 0:
        raise ValueError(f"weight_decay={weight_decay}")
    params = list(filter(lambda p: p.requires_grad, model.parameters()))
    matrices = list(filter(lambda p: p.ndim > 1, params))
    vectors = list(filter(lambda p: p.ndim <= 1, params))
    return [
        OrderedDict(weight_decay=weight_decay, params=matrices),
        OrderedDict(weight_decay=0.0, params=vectors),
    ]


if __name__ == "__main__":
    print(count_parameters(nn.Linear(2, 3)))
