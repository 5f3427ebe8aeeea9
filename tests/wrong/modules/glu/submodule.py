# wrong: the parameters belong to an nn.Linear inside | caught by: test_parameters, test_example_parameters | told: linear.weight
import torch
from torch import nn


class GatedLinearUnit(nn.Module):
    def __init__(self, in_features, out_features=None):
        super().__init__()
        if out_features is None:
            if in_features % 2 != 0:
                raise ValueError("in_features must be even")
            out_features = in_features // 2
        self.linear = nn.Linear(in_features, 2 * out_features)

    def forward(self, x):
        value, gate = self.linear(x).chunk(2, dim=-1)
        return value * torch.sigmoid(gate)


def gradient_flow(module, x):
    module.zero_grad(set_to_none=True)
    total = module(x.detach()).sum()
    if total.requires_grad:
        total.backward()
    return {name: p.grad is not None for name, p in module.named_parameters()}
