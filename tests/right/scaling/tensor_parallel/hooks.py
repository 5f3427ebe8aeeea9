# right: a hook for the gradient of x, a detached sum, narrow, parameters filled in layers of the right size
import torch
import torch.distributed as dist
from torch import nn


def add_up(gradient):
    gradient = gradient.contiguous().clone()
    dist.all_reduce(gradient, op=dist.ReduceOp.SUM)
    return gradient


class ColumnParallel(nn.Module):
    def __init__(self, linear):
        super().__init__()
        n = dist.get_world_size()
        if linear.out_features % n != 0:
            raise ValueError(f"{linear.out_features=} is not divisible by {n}")
        size = linear.out_features // n
        part = nn.Linear(linear.in_features, size, bias=linear.bias is not None)
        first = dist.get_rank() * size
        with torch.no_grad():
            part.weight.copy_(linear.weight.narrow(0, first, size))
            if part.bias is not None:
                part.bias.copy_(linear.bias.narrow(0, first, size))
        self.weight, self.bias = part.weight, part.bias

    def forward(self, x):
        if x.requires_grad:
            x = x.clone()
            x.register_hook(add_up)
        y = torch.einsum("...i,oi->...o", x, self.weight)
        if self.bias is not None:
            y = y + self.bias
        return y


class RowParallel(nn.Module):
    def __init__(self, linear):
        super().__init__()
        n, r = dist.get_world_size(), dist.get_rank()
        assert_divides(linear.in_features, n)
        size = linear.in_features // n
        self.weight = nn.Parameter(linear.weight[:, r * size : (r + 1) * size].detach().clone())
        if linear.bias is None:
            self.register_parameter("bias", None)
        else:
            self.bias = nn.Parameter(linear.bias.data)

    def forward(self, x):
        product = torch.matmul(x, self.weight.t())
        total = add_up(product.detach())
        y = product + (total - product).detach()
        if self.bias is not None:
            y += self.bias
        return y


def assert_divides(in_features, n):
    if in_features % n:
        raise ValueError(f"in_features must be a multiple of {n}, got {in_features}")
