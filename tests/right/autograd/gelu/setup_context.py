# right: the newer style with setup_context, gelu is a bare alias of apply, the derivative by way of Horner's scheme
from math import pi, sqrt

import torch
from torch.autograd import grad, gradcheck


class GELUFunction(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x / 2 * (torch.tanh(x * (sqrt(2 / pi) + sqrt(2 / pi) * 0.044715 * x * x)) + 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        [x] = ctx.saved_tensors
        k = sqrt(2 / pi)
        y = torch.tanh(x * (k + k * 0.044715 * x * x))
        return grad_output / 2 * (1 + y + (1 + y) * (1 - y) * x * (k + 3 * k * 0.044715 * x * x))


gelu = GELUFunction.apply


def gradient_error(x):
    if x.nelement() == 0:
        return 0.0
    a = torch.clone(x.data).requires_grad_(True)
    ours = grad(gelu(a).sum(), a)[0]
    theirs = grad(torch.nn.functional.gelu(a, approximate="tanh").sum(), a)[0]
    return float(torch.max(torch.abs(ours - theirs)))


def check_gradients(x):
    return gradcheck(gelu, x.detach().clone().double().requires_grad_(True), raise_exception=False)
