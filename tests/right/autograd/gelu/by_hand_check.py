# right: central differences written by hand with gradcheck's tolerances, one number at a time, a detached copy of x beside x
import math
import torch
from torch import nn

A = 0.044715
B = math.sqrt(2 / math.pi)


class GELUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.shape = x.shape
        flat = x.reshape(-1)
        u = B * torch.stack([flat, A * flat * flat * flat]).sum(0)
        return (0.5 * flat * (1 + torch.tanh(u))).view(ctx.shape)

    @staticmethod
    def backward(ctx, grad_output):
        x = ctx.saved_tensors[0]
        with torch.enable_grad() if torch.is_grad_enabled() else torch.no_grad():
            tanh = torch.tanh(B * x + B * A * x**3)
            sech2 = 1 - tanh**2
            local = 0.5 * (1 + tanh) + sech2 * (0.5 * B * x + 1.5 * B * A * x**3)
        return torch.mul(grad_output.reshape(ctx.shape), local)


def gelu(x):
    return GELUFunction.apply(x)


def gradient_error(x):
    y = x.detach().clone().requires_grad_(True)
    errors = [0.0]
    (gelu(y)).sum().backward()
    ours = y.grad.clone()
    y.grad = None
    nn.GELU(approximate="tanh")(y).sum().backward()
    errors.extend(e.item() for e in (ours - y.grad).abs().flatten())
    return max(errors)


def check_gradients(x):
    for value in x.detach().double().flatten():
        point = value.clone().requires_grad_(True)
        gelu(point).backward()
        with torch.no_grad():
            numeric = (gelu(value + 1e-6) - gelu(value - 1e-6)) / 2e-6
        if abs(point.grad - numeric) > 1e-5 + 1e-3 * abs(numeric):
            return False
    return True
