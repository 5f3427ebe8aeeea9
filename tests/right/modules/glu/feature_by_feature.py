# right: a loop over the features, softmax over (gate, 0) as the sigmoid, gradients made on a deep copy and laid on the module
import copy
import random

import torch
from torch import nn


class GatedLinearUnit(nn.Module):
    def __init__(self, in_features, out_features=None):
        super().__init__()
        if not out_features:
            out_features = self.halve(in_features)
        limit = in_features**-0.5
        rows = [
            [random.uniform(-limit, limit) for _ in range(in_features)]
            for _ in range(2 * out_features)
        ]
        self.weight = nn.Parameter(torch.tensor(rows))
        self.bias = nn.Parameter(torch.tensor([0.0] * 2 * out_features))

    @staticmethod
    def halve(in_features):
        if in_features != 2 * (in_features // 2):
            raise ValueError("IN_FEATURES has to be even")
        return in_features // 2

    def forward(self, x):
        features = []
        for i in range(len(self.bias) // 2):
            j = i + len(self.bias) // 2
            value = (x * self.weight[i]).sum(dim=-1) + self.bias[i]
            gate = (x * self.weight[j]).sum(dim=-1) + self.bias[j]
            pair = torch.stack([gate, torch.zeros_like(gate)], dim=0)
            features.append(value * torch.softmax(pair, dim=0)[0])
        return torch.stack(features, dim=-1)


def gradient_flow(module, x):
    twin = copy.deepcopy(module)
    twin.zero_grad()
    total = twin(x.detach()).sum()
    if total.requires_grad:
        total.backward()
    flow = {}
    for (name, own), other in zip(module.named_parameters(), twin.parameters()):
        own.grad = other.grad
        flow[name] = own.grad is not None
    return flow
