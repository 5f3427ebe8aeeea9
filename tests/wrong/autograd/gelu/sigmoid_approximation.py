# wrong: the other approximation, x * sigmoid(1.702 x) | caught by: test_forward | told: 1.702
import math

import torch
from torch import nn

K = math.sqrt(2 / math.pi)
A = 0.044715


class GELUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(1.702 * x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(1.702 * x)
        return grad_output * (s + 1.702 * x * s * (1 - s))


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
