"""Write GELU's derivative by hand, as a custom autograd Function, and prove that it is right.

The Gaussian error linear unit (GELU), here in its approximation with tanh, is

    gelu(x) = 0.5 * x * (1 + tanh(u))    where    u = sqrt(2 / pi) * (x + 0.044715 * x**3)

A wrong derivative gives no error message, only a network that learns badly. So you also write two checks that
find it.

`x` has any shape, also 0-d and empty.

Source: Hendrycks and Gimpel (2016), "Gaussian Error Linear Units (GELUs)", section 2.

What holds for every exercise: docs/every-exercise.md.
"""

from typing import Any

import torch
from torch import Tensor

# begin solution: imports and constants
import math  # isort: skip
from torch import nn  # isort: skip

# Python numbers, not tensors: they take on the dtype and device of whatever they multiply, so that
# float64 keeps all of their digits.
SCALE = math.sqrt(2 / math.pi)
CUBIC = 0.044715
# end solution


class GELUFunction(torch.autograd.Function):
    """GELU (the tanh approximation) with a backward pass of your own.

    Both methods are static; `ctx` carries what `forward` saves over to `backward`. The newer style,
    `forward(x)` and a third static method `setup_context(ctx, inputs, output)`, is fine, too.

    Not allowed in either: PyTorch's own operator (`F.gelu`, `nn.GELU`, `torch.ops.aten.gelu`).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return `0.5 * x * (1 + tanh(u))`, elementwise, and save `x` for the backward pass.

        The values are right for |x| up to 1e4. Save `x` itself, with `ctx.save_for_backward`: if `x` is then
        changed in place before the backward pass, autograd raises an error instead of giving a wrong gradient.
        An attribute like `ctx.x = x`, or a saved copy, would hide the change.
        """
        # begin solution: save x, compute the formula
        # Only x is saved. tanh(u) could be saved beside it to spare the backward pass the work, but
        # autograd cannot follow a saved intermediate back to x: the second derivative would take it
        # for a constant, and be wrong without a word.
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + torch.tanh(SCALE * (x + CUBIC * x**3)))
        # end solution

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return the gradient with respect to `x`: `grad_output` times GELU's derivative at `x`.

        - Write the derivative by hand: first the product rule, then the chain rule through tanh and through
          `u`. `torch.autograd.grad`, `.backward()` and the like (`torch.func.grad`) are not allowed here.
        - It is finite for |x| up to 1e4: beware of what overflows on the way.
        - The backward pass can itself be differentiated, with respect to `grad_output` and to `x`, as long as
          autograd can follow your tensors back to the saved `x`. `torch.autograd.gradgradcheck` passes for |x|
          up to 5.
        """
        # begin solution: the derivative, by hand
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
        # end solution


def gelu(x: Tensor) -> Tensor:
    """Return exactly what `GELUFunction.apply` returns: its `grad_fn` is the backward node of GELUFunction."""
    # begin solution: call GELUFunction.apply
    # torch leaves apply without annotations.
    result: Tensor = GELUFunction.apply(x)  # type: ignore[no-untyped-call]
    return result
    # end solution


def gradient_error(x: Tensor) -> float:
    """Return how far your gradient is from PyTorch's: the largest absolute difference at `x`.

    Compare the gradients of `gelu(x).sum()` and `torch.nn.GELU(approximate="tanh")(x).sum()` with respect to
    `x`, in the dtype of `x`. Here, PyTorch's GELU is allowed. `x` may or may not require a gradient; for an
    empty one the result is 0.0.
    """
    # begin solution: compare with nn.GELU(approximate='tanh')
    # A detached alias is a new leaf: it can require a gradient whether or not x does, and
    # torch.autograd.grad returns gradients without storing them in anybody's .grad.
    point = x.detach().requires_grad_()
    (ours,) = torch.autograd.grad(gelu(point).sum(), point)
    (theirs,) = torch.autograd.grad(nn.GELU(approximate="tanh")(point).sum(), point)
    # max() of an empty tensor raises, and there is nothing that could differ.
    return (ours - theirs).abs().max().item() if x.numel() else 0.0
    # end solution


def check_gradients(x: Tensor) -> bool:
    """Return whether the gradient of `gelu` at `x` agrees with finite differences.

    That is what `torch.autograd.gradcheck` says, with its default tolerances, about `gelu` at the values of `x`
    in float64: in float32, finite differences drown in rounding errors. Where the gradients do not agree it is
    False, not an exception. `x` may or may not require a gradient.
    """
    # begin solution: gradcheck in float64, on a copy of x
    # A copy, always: to() alone would return x itself where x is float64 already, and gradcheck
    # nudges its input in place.
    point = x.detach().to(torch.float64, copy=True).requires_grad_()
    # raise_exception=False turns a disagreement into False, and nothing else: an error that the
    # backward pass raises itself still comes through. A try/except here would swallow it.
    return torch.autograd.gradcheck(gelu, (point,), raise_exception=False)
    # end solution
