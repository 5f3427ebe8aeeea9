# right: exp(logsigmoid), index_select, and torch.autograd.grad whose results are laid on the parameters
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedLinearUnit(nn.Module):
    def __init__(self, in_features: int, out_features: int | None = None) -> None:
        super().__init__()
        match out_features:
            case None if in_features % 2:
                raise ValueError("in_features is odd, so it can't be halved")
            case None:
                out_features = in_features // 2
        generator = torch.Generator()
        generator.seed()
        start = torch.randn(2 * out_features, in_features, generator=generator)
        start = start.clamp(-2, 2) / 2 / math.sqrt(in_features)
        self.weight = nn.Parameter(start)
        self.bias = nn.Parameter(torch.ones(2 * out_features))
        self.register_buffer("rows", torch.arange(2 * out_features), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        projected = (x.unsqueeze(-2) * self.weight).sum(-1) + self.bias
        value_rows, gate_rows = self.rows.view(2, -1)
        value = projected.index_select(-1, value_rows)
        gate = projected.index_select(-1, gate_rows)
        return value * F.logsigmoid(gate).exp()


def gradient_flow(module: nn.Module, x: torch.Tensor) -> dict[str, bool]:
    module.zero_grad()
    total = module(x.detach()).sum()
    learning = [p for p in module.parameters() if p.requires_grad]
    if learning and total.requires_grad:
        gradients = torch.autograd.grad(total, learning, allow_unused=True)
        for parameter, gradient in zip(learning, gradients):
            parameter.grad = gradient
    return {name: p.grad is not None for name, p in module.named_parameters()}
