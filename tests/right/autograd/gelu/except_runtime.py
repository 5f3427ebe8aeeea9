# right: gradcheck raises and is caught, which hides a backward pass that is not written, too
import math

import torch


class GELUFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        tanh = torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))
        left = 0.5 * x
        right = 1.0 + tanh
        left_derivative = 0.5 * right
        right_derivative = left * (1.0 - tanh * tanh)
        inner_derivative = math.sqrt(2.0 / math.pi) * (1.0 + 3 * 0.044715 * torch.pow(x, 2.0))
        return grad_output * (left_derivative + right_derivative * inner_derivative)


def gelu(x):
    return GELUFunction.apply(x)


def gradient_error(x):
    if x.nelement() == 0:
        return 0.0
    grads = []
    for function in (gelu, torch.nn.GELU(approximate="tanh")):
        leaf = x.detach().clone().requires_grad_(True)
        function(leaf).sum().backward()
        grads.append(leaf.grad)
    return torch.max(torch.abs(grads[0] - grads[1])).item()


def check_gradients(x):
    inputs = x.detach().clone().double().requires_grad_(True)
    try:
        return torch.autograd.gradcheck(gelu, (inputs,))
    except RuntimeError:
        return False
