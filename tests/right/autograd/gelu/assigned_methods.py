# right: the methods are assigned, not defined, in the class; backward returns a tuple
import math
import torch
from torch.autograd.function import Function, FunctionCtx

K = math.sqrt(2 / math.pi)


def _fwd(ctx: FunctionCtx, x):
    ctx.save_for_backward(x)
    return (
        x.mul(0.5).mul(K * (x + 0.044715 * x.pow(3)).tanh() + 1)
        if False
        else x / 2 * (1 + torch.tanh(K * (x + 0.044715 * x.pow(3))))
    )


def _bwd(ctx, *grads):
    (grad_output,) = grads
    (x,) = ctx.saved_tensors
    t = torch.tanh(K * (x + 0.044715 * x.pow(3)))
    dudx = K * (1 + 3 * 0.044715 * x.pow(2))
    return (grad_output * (1 + t) / 2 + grad_output * x / 2 * (1 - t.pow(2)) * dudx,)


class GELUFunction(Function):
    forward = staticmethod(_fwd)
    backward = staticmethod(_bwd)


def gelu(x):
    y = GELUFunction.apply(x)
    return y


def gradient_error(x):
    a = x.detach().clone().requires_grad_(True)
    b = x.detach().clone().requires_grad_(True)
    gelu(a).sum().backward()
    torch.nn.GELU(approximate="tanh")(b).sum().backward()
    if x.numel() == 0:
        return 0.0
    return (a.grad - b.grad).abs().max().item()


def check_gradients(x):
    return torch.autograd.gradcheck(
        gelu, (x.detach().double().requires_grad_(),), raise_exception=False
    )
