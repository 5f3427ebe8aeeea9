# wrong: the weight starts as NaN, which is above no bound and equals nothing | caught by: test_weight_starts_within_bound, test_weight_starts_random | told: not finite
import math

import torch
import torch.nn.functional as F
from torch import nn


class GatedLinearUnit(nn.Module):
    def __init__(self, in_features, out_features=None):
        super().__init__()
        if out_features is None:
            if in_features % 2 != 0:
                raise ValueError(f"in_features must be even, got {in_features}")
            out_features = in_features // 2
        self.out_features = out_features
        self.weight = nn.Parameter(torch.full((2 * out_features, in_features), math.nan))
        self.bias = nn.Parameter(torch.zeros(2 * out_features))

    def forward(self, x):
        value, gate = F.linear(x, self.weight, self.bias).chunk(2, dim=-1)
        return value * torch.sigmoid(gate)


def gradient_flow(module, x):
    module.zero_grad(set_to_none=True)
    total = module(x.detach()).sum()
    if total.requires_grad:
        total.backward()
    return {name: p.grad is not None for name, p in module.named_parameters()}
