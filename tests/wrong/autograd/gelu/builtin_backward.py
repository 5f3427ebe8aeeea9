# wrong: backward calls the built-in operator's own backward | caught by: test_forward, test_example_gradients | told: not allowed
import math
from typing import Any

import torch
from torch import Tensor, nn

K = math.sqrt(2 / math.pi)
C = 0.044715


class GELUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        u = K * (x + C * x**3)
        return 0.5 * x * (1 + torch.tanh(u))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.ops.aten.gelu_backward(grad_output, x, approximate="tanh")


def gelu(x: Tensor) -> Tensor:
    return GELUFunction.apply(x)


def gradient_error(x: Tensor) -> float:
    if x.numel() == 0:
        return 0.0
    mine = x.detach().clone().requires_grad_(True)
    theirs = x.detach().clone().requires_grad_(True)
    gelu(mine).sum().backward()
    nn.GELU(approximate="tanh")(theirs).sum().backward()
    return (mine.grad - theirs.grad).abs().max().item()


def check_gradients(x: Tensor) -> bool:
    leaf = x.detach().clone().double().requires_grad_(True)
    return torch.autograd.gradcheck(gelu, (leaf,), raise_exception=False)
