# right: plain and short; most of the wrong answers are changes of it
import math

import torch
from torch import nn

K = math.sqrt(2 / math.pi)
A = 0.044715


class GELUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.tanh(K * (x + A * x**3)))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        t = torch.tanh(K * (x + A * x**3))
        du = K * (1 + 3 * A * x**2)
        return grad_output * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * du)


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
