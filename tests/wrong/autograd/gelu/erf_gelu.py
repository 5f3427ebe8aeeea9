# wrong: the exact GELU with erf, not the tanh approximation | caught by: test_forward, test_example_values | told: erf
import math

import torch
from torch import nn

K = math.sqrt(2 / math.pi)
A = 0.044715


class GELUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        cdf = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        pdf = torch.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
        return grad_output * (cdf + x * pdf)


def gelu(x):
    return GELUFunction.apply(x)


def gradient_error(x):
    if x.numel() == 0:
        return 0.0
    point = x.detach().clone().requires_grad_()
    (ours,) = torch.autograd.grad(gelu(point).sum(), point)
    (theirs,) = torch.autograd.grad(nn.GELU(approximate="tanh")(point).sum(), point)
    return (ours - theirs).abs().max().item()


def check_gradients(x):
    point = x.detach().double().clone().requires_grad_()
    return torch.autograd.gradcheck(gelu, (point,), raise_exception=False)
