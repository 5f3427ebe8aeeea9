"""GELU's derivative by hand, as a custom autograd Function, and two checks that it is right.

    gelu(x) = 0.5 * x * (1 + tanh(u))    where    u = sqrt(2 / pi) * (x + 0.044715 * x**3)

Source: Hendrycks and Gimpel (2016), "Gaussian Error Linear Units (GELUs)", section 2.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

# Python numbers, not tensors: they take on the dtype and device of whatever they multiply, so that
# float64 keeps all of their digits.
SCALE = math.sqrt(2 / math.pi)
CUBIC = 0.044715


class GELUFunction(torch.autograd.Function):
    """GELU (the tanh approximation) with its derivative written out."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return GELU of `x`, of any shape, for instance (batch, features)."""
        # Only x is saved. tanh(u) could be saved beside it to spare the backward pass the work, but
        # autograd cannot follow a saved intermediate back to x: the second derivative would take it
        # for a constant, and be wrong without a word.
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.tanh(SCALE * (x + CUBIC * x**3)))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return `grad_output` times the derivative at `x`, both of the shape of `x`."""
        x: Tensor
        (x,) = ctx.saved_tensors
        t = torch.tanh(SCALE * (x + CUBIC * x**3))
        du_dx = SCALE * (1 + 3 * CUBIC * x**2)
        # The derivative of tanh is sech(u)**2. As 1 - t**2 it is 0 for large u; by way of
        # exponentials it would be inf / inf = NaN.
        dt_dx = (1 - t**2) * du_dx
        # Product rule: x * (1 + t) gives one term for x and one for t.
        derivative = 0.5 * (1 + t) + 0.5 * x * dt_dx
        return grad_output * derivative


def gelu(x: Tensor) -> Tensor:
    """Return GELU of `x`, elementwise and of the same shape, through `GELUFunction.apply`."""
    # torch leaves apply without annotations.
    result: Tensor = GELUFunction.apply(x)  # type: ignore[no-untyped-call]
    return result


def gradient_error(x: Tensor) -> float:
    """Return the largest absolute difference between our gradient and PyTorch's at `x`.

    `x` has any shape; the result is 0.0 for an empty one.
    """
    # A detached alias is a new leaf: it can require a gradient whether or not x does, and
    # torch.autograd.grad returns gradients without storing them in anybody's .grad.
    point = x.detach().requires_grad_()
    (ours,) = torch.autograd.grad(gelu(point).sum(), point)
    (theirs,) = torch.autograd.grad(nn.GELU(approximate="tanh")(point).sum(), point)
    # max() of an empty tensor raises, and there is nothing that could differ.
    return (ours - theirs).abs().max().item() if x.numel() else 0.0


def check_gradients(x: Tensor) -> bool:
    """Tell whether the gradient of `gelu` at `x`, of any shape, agrees with finite differences."""
    # A copy, always: to() alone would return x itself where x is float64 already, and gradcheck
    # nudges its input in place.
    point = x.detach().to(torch.float64, copy=True).requires_grad_()
    # raise_exception=False turns a disagreement into False, and nothing else: an error that the
    # backward pass raises itself still comes through. A try/except here would swallow it.
    return torch.autograd.gradcheck(gelu, (point,), raise_exception=False)
