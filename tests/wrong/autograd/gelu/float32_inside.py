# wrong: both passes compute in float32 and cast back | caught by: test_forward_float64, test_gradient_float64 | told: float32
import math

import torch
from torch import nn

K = math.sqrt(2 / math.pi)
A = 0.044715


class GELUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        y = x.float()
        return (0.5 * y * (1 + torch.tanh(K * (y + A * y**3)))).to(x.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        x = x.float()
        t = torch.tanh(K * (x + A * x**3))
        du = K * (1 + 3 * A * x**2)
        derivative = 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * du
        return (grad_output.float() * derivative).to(grad_output.dtype)


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
