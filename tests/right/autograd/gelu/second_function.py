# right: backward is the apply of a second Function with a hand-written second derivative of its own, helpers in TorchScript
import math

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.autograd.gradcheck import GradcheckError


@torch.jit.script
def value(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


@torch.jit.script
def first(x: Tensor) -> Tensor:
    t = torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))
    du = 0.7978845608028654 * (1.0 + 0.134145 * x * x)
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * du


@torch.jit.script
def second(x: Tensor) -> Tensor:
    k = 0.7978845608028654
    t = torch.tanh(k * (x + 0.044715 * x * x * x))
    s = 1.0 - t * t
    du = k * (1.0 + 0.134145 * x * x)
    ddu = k * 0.26829 * x
    return s * du + 0.5 * x * s * (ddu - 2.0 * t * du * du)


class GELUGradient(Function):
    @staticmethod
    def forward(ctx, x, g):
        ctx.save_for_backward(x, g)
        return g * first(x)

    @staticmethod
    @once_differentiable
    def backward(ctx, gg):
        x, g = ctx.saved_tensors
        return gg * g * second(x), gg * first(x)


class GELUFunction(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return value(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return GELUGradient.apply(x, g)


apply = GELUFunction.apply


def gelu(x: Tensor) -> Tensor:
    return apply(x)


def gradient_error(x: Tensor) -> float:
    mine = x.detach().clone().requires_grad_()
    other = x.detach().clone().requires_grad_()
    gelu(mine).sum().backward()
    nn.GELU(approximate="tanh")(other).sum().backward()
    assert mine.grad is not None and other.grad is not None
    distance = torch.linalg.vector_norm(mine.grad - other.grad, ord=float("inf")) if x.numel() else 0
    return float(distance)


def check_gradients(x: Tensor) -> bool:
    inputs = (x.detach().clone().to(torch.float64).requires_grad_(),)
    try:
        return torch.autograd.gradcheck(gelu, inputs, eps=1e-6, atol=1e-5, rtol=1e-3)
    except GradcheckError:
        return False
