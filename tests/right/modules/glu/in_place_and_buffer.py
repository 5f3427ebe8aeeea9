# right: in-place arithmetic on fresh tensors, a buffer that is not persistent, truncated normal start
import torch
from torch import nn
import torch.nn.functional as F


class GatedLinearUnit(nn.Module):
    def __init__(self, in_features, out_features=None):
        nn.Module.__init__(self)
        if out_features is None:
            if in_features % 2 == 1:
                raise ValueError("GatedLinearUnit: in_features must be even")
            out_features = int(in_features / 2)
        self.n = out_features
        self.register_buffer("_half", torch.tensor(0.5), persistent=False)
        self.weight = nn.Parameter(
            torch.nn.init.trunc_normal_(
                torch.empty(2 * out_features, in_features),
                std=in_features**-0.5,
                a=-(in_features**-0.5),
                b=in_features**-0.5,
            )
        )
        self.bias = nn.Parameter(torch.randn(2 * out_features))

    def forward(self, x):
        h = F.linear(x, self.weight)
        h += self.bias
        gate = h[..., self.n :].mul(0.5).tanh().mul(0.5).add_(0.5)
        out = h[..., : self.n] * 1
        out *= gate
        return out


def gradient_flow(module, x):
    result = {}
    for name, parameter in module.named_parameters():
        parameter.grad = None
        result[name] = False
    total = torch.sum(module(x.detach()))
    if total.requires_grad:
        total.backward()
        for name, parameter in module.named_parameters():
            if parameter.grad is not None:
                result[name] = True
    return result
