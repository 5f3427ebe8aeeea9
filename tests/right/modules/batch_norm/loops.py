"""One feature at a time, with a buffer of its own that is not saved; each result beside its own target."""

import copy

import torch
from torch import nn


class BatchNorm1d(nn.Module):
    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.tensor([1.0] * num_features))
        self.bias = nn.Parameter(torch.tensor([0.0] * num_features))
        self.register_buffer("running_mean", torch.tensor([0.0] * num_features))
        self.register_buffer("running_var", torch.tensor([1.0] * num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))
        self.register_buffer("last_mean", torch.zeros(num_features), persistent=False)

    def forward(self, x):
        if len(x.shape) not in (2, 3) or x.shape[1] != self.weight.shape[0]:
            raise ValueError(f"x should have {self.weight.shape[0]} features, not {x.shape}")
        m = x[:, 0].numel()
        if self.training and m < 2:
            raise ValueError("x has too few values")
        columns = []
        for f in range(x.shape[1]):
            column = x[:, f]
            mean, var = self.running_mean[f], self.running_var[f]
            if self.training:
                mean = column.sum() / m
                squares = ((column - mean) * (column - mean)).sum()
                var = squares / m
                with torch.no_grad():
                    keep = 1 - self.momentum
                    self.last_mean[f] = mean
                    self.running_mean[f] = keep * self.running_mean[f] + self.momentum * mean
                    unbiased = squares / (m - 1)
                    self.running_var[f] = keep * self.running_var[f] + self.momentum * unbiased
            y = (column - mean) / (var + self.eps).sqrt()
            columns.append(y * self.weight[f] + self.bias[f])
        if self.training:
            self.num_batches_tracked += 1
        return torch.stack(columns, dim=1)


def batching_gap(module, x, batch_size):
    if batch_size < 1:
        raise ValueError("batch_size")
    whole = copy.deepcopy(module)(x.detach())
    worst, rest = 0.0, x.detach()
    while len(rest) > 0:
        for row in copy.deepcopy(module)(rest[:batch_size]):
            worst = max(worst, (row - whole[0]).abs().max().item())
            whole = whole[1:]
        rest = rest[batch_size:]
    return worst
