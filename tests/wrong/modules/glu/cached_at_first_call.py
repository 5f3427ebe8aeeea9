# wrong: forward keeps a copy of the weight of its first call | caught by: test_forward | told: values that weight had at an earlier call of forward
import math

import torch
from torch import nn
from torch.nn import functional as F


class GatedLinearUnit(nn.Module):
    def __init__(self, in_features: int, out_features: int | None = None) -> None:
        super().__init__()
        if out_features is None:
            if in_features % 2 != 0:
                raise ValueError(f"in_features must be even, got {in_features}")
            out_features = in_features // 2
        bound = 1 / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(2 * out_features, in_features).uniform_(-bound, bound))
        self._wt = None
        self.bias = nn.Parameter(torch.zeros(2 * out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._wt is None:
            self._wt = self.weight.t().contiguous()
        projected = x @ self._wt + self.bias
        value, gate = projected.chunk(2, dim=-1)
        return value * torch.sigmoid(gate)


def gradient_flow(module: nn.Module, x: torch.Tensor) -> dict[str, bool]:
    for parameter in module.parameters():
        parameter.grad = None
    output = module(x.detach())
    if output.requires_grad:
        output.sum().backward()
    return {name: parameter.grad is not None for name, parameter in module.named_parameters()}
