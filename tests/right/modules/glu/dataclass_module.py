# right: a dataclass with postponed annotations, and a flow that runs backward on a deep copy
from __future__ import annotations
import copy
import dataclasses
import torch
from torch import Tensor, nn


@dataclasses.dataclass(eq=False, repr=False)
class GatedLinearUnit(nn.Module):
    in_features: int
    out_features: int | None = None

    def __post_init__(self) -> None:
        super().__init__()
        if self.out_features is None:
            if self.in_features % 2:
                raise ValueError(f"{self.in_features=} is odd")
            self.out_features = self.in_features // 2
        bound = self.in_features**-0.5
        self.weight = nn.Parameter(
            torch.empty(2 * self.out_features, self.in_features).uniform_(-bound, bound)
        )
        self.bias = nn.Parameter(torch.zeros(2 * self.out_features))

    def forward(self, x: Tensor) -> Tensor:
        value, gate = nn.functional.linear(x, self.weight, self.bias).split(self.out_features, -1)
        return torch.mul(value, gate.sigmoid())


def gradient_flow(module, x):
    for p in module.parameters():
        p.grad = None
    twin = copy.deepcopy(module)
    y = twin(x.detach()).sum()
    if y.requires_grad:
        y.backward()
    for p, q in zip(module.parameters(), twin.parameters()):
        p.grad = q.grad
    return {n: p.grad is not None for n, p in module.named_parameters()}
