# wrong: an odd in_features is refused even beside an out_features | caught by: test_explicit_out_features | told: in_features must be even
import math

import torch
import torch.nn.functional as F
from torch import nn


class GatedLinearUnit(nn.Module):
    def __init__(self, in_features, out_features=None):
        super().__init__()
        if in_features % 2 != 0:
            raise ValueError("in_features must be even")
        self.out_features = in_features // 2 if out_features is None else out_features
        bound = 1 / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(2 * self.out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(2 * self.out_features))
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x):
        value, gate = F.linear(x, self.weight, self.bias).chunk(2, dim=-1)
        return value * torch.sigmoid(gate)


def gradient_flow(module, x):
    module.zero_grad(set_to_none=True)
    total = module(x.detach()).sum()
    if total.requires_grad:
        total.backward()
    return {name: p.grad is not None for name, p in module.named_parameters()}
