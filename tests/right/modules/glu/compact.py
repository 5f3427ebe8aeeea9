# right: plain and short; most of the wrong answers are changes of it
import math

import torch
import torch.nn.functional as F
from torch import nn


class GatedLinearUnit(nn.Module):
    def __init__(self, in_features, out_features=None):
        super().__init__()
        if out_features is None:
            out_features, odd = divmod(in_features, 2)
            if odd:
                raise ValueError(f"in_features must be even, got {in_features}")
        self.out_features = out_features
        bound = 1 / math.sqrt(in_features)
        self.weight = nn.Parameter(
            torch.empty(2 * out_features, in_features).uniform_(-bound, bound)
        )
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
