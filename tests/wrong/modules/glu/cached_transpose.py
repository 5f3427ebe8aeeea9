# wrong: forward uses a copy of the weight made in __init__ | caught by: test_forward | told: values that weight had when the layer was made
import math

import torch
import torch.nn.functional as F
from torch import nn


class GatedLinearUnit(nn.Module):
    def __init__(self, in_features: int, out_features: int | None = None) -> None:
        super().__init__()
        if out_features is None:
            if in_features % 2 != 0:
                raise ValueError(f"in_features must be even, got {in_features}")
            out_features = in_features // 2
        self.in_features = in_features
        self.out_features = out_features
        self.weight = nn.Parameter(torch.empty(2 * out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(2 * out_features))
        bound = 1 / math.sqrt(in_features)
        nn.init.uniform_(self.weight, -bound, bound)
        self.wt = self.weight.detach().t().clone()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        projected = x @ self.wt.to(x.dtype) + self.bias
        value, gate = projected.chunk(2, dim=-1)
        return value * torch.sigmoid(gate)


def gradient_flow(module: nn.Module, x: torch.Tensor) -> dict[str, bool]:
    for p in module.parameters():
        p.grad = None
    out = module(x.detach())
    if out.requires_grad:
        out.sum().backward()
    return {name: p.grad is not None for name, p in module.named_parameters()}
