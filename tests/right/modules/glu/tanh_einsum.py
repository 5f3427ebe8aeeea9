# right: sigmoid through tanh, einsum, unflatten and unbind; a dataclass for the sizes under postponed annotations
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn


@dataclass(frozen=True)
class Sizes:
    inside: int
    outside: int | None = None

    def resolve(self) -> Sizes:
        if self.outside is not None:
            return self
        if self.inside & 1:
            raise ValueError("out_features is missing and in_features is not even: " + str(self))
        return dataclasses.replace(self, outside=self.inside >> 1)


class Halves(NamedTuple):
    value: torch.Tensor
    gate: torch.Tensor


class GatedLinearUnit(nn.Module):
    def __init__(self, in_features: int, out_features: int | None = None):
        super().__init__()
        self.sizes = Sizes(in_features, out_features).resolve()
        rows = 2 * self.sizes.outside
        self.bias = nn.Parameter(torch.randn(rows))
        self.weight = nn.Parameter(torch.empty(rows, in_features))
        bound = 1 / in_features**0.5
        nn.init.trunc_normal_(self.weight, std=bound / 2, a=-bound, b=bound)

    def _halves(self, x: torch.Tensor) -> Halves:
        projected = torch.einsum("...i,oi->...o", x, self.weight)
        projected += self.bias
        return Halves(*projected.unflatten(-1, (2, self.sizes.outside)).unbind(-2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        halves = self._halves(x)
        return halves.value * (1 + torch.tanh(halves.gate / 2)) * 0.5


def gradient_flow(module: nn.Module, x: torch.Tensor) -> dict[str, bool]:
    parameters = dict(module.named_parameters())
    for parameter in parameters.values():
        parameter.grad = None
    # Requiring a gradient of the copy keeps backward() working if every parameter is frozen.
    total = torch.sum(module(x.detach().clone().requires_grad_()))
    total.backward()
    return {name: parameter.grad is not None for name, parameter in parameters.items()}
