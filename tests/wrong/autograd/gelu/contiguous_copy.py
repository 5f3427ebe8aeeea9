# wrong: gelu hands a contiguous copy of x on, so that a change of a transposed x goes unseen | caught by: test_saved_tensor | told: transposed, so not contiguous
import math
from typing import Any

import torch
from torch import Tensor, nn

C = math.sqrt(2 / math.pi)
A = 0.044715


class GELUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        u = C * (x + A * x**3)
        return 0.5 * x * (1 + torch.tanh(u))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        t = torch.tanh(C * (x + A * x**3))
        du = C * (1 + 3 * A * x**2)
        derivative = 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * du
        return grad_output * derivative


def gelu(x: Tensor) -> Tensor:
    return GELUFunction.apply(x.contiguous())


def gradient_error(x: Tensor) -> float:
    if x.numel() == 0:
        return 0.0
    mine = x.detach().clone().requires_grad_(True)
    theirs = x.detach().clone().requires_grad_(True)
    gelu(mine).sum().backward()
    nn.GELU(approximate="tanh")(theirs).sum().backward()
    return (mine.grad - theirs.grad).abs().max().item()


def check_gradients(x: Tensor) -> bool:
    copy = x.detach().clone().double().requires_grad_(True)
    return torch.autograd.gradcheck(gelu, (copy,), raise_exception=False)
