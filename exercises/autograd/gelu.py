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
        # TODO: save x, compute the formula.
        raise NotImplementedError("GELUFunction.forward: save x, compute the formula")

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
        # TODO: the derivative, by hand.
        raise NotImplementedError("GELUFunction.backward: the derivative, by hand")


def gelu(x: Tensor) -> Tensor:
    """Return exactly what `GELUFunction.apply` returns: its `grad_fn` is the backward node of GELUFunction."""
    # TODO: call GELUFunction.apply.
    raise NotImplementedError("gelu: call GELUFunction.apply")


def gradient_error(x: Tensor) -> float:
    """Return how far your gradient is from PyTorch's: the largest absolute difference at `x`.

    Compare the gradients of `gelu(x).sum()` and `torch.nn.GELU(approximate="tanh")(x).sum()` with respect to
    `x`, in the dtype of `x`. Here, PyTorch's GELU is allowed. `x` may or may not require a gradient; for an
    empty one the result is 0.0.
    """
    # TODO: compare with nn.GELU(approximate='tanh').
    raise NotImplementedError("gradient_error: compare with nn.GELU(approximate='tanh')")


def check_gradients(x: Tensor) -> bool:
    """Return whether the gradient of `gelu` at `x` agrees with finite differences.

    That is what `torch.autograd.gradcheck` says, with its default tolerances, about `gelu` at the values of `x`
    in float64: in float32, finite differences drown in rounding errors. Where the gradients do not agree it is
    False, not an exception. `x` may or may not require a gradient.
    """
    # TODO: gradcheck in float64, on a copy of x.
    raise NotImplementedError("check_gradients: gradcheck in float64, on a copy of x")
