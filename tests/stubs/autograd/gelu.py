"""Write GELU's derivative by hand, as a custom autograd Function, and prove that it is right.

The Gaussian error linear unit (GELU) weighs each number by how likely a standard normal variable
is to lie below it: x * Phi(x). Large inputs pass, very negative ones are silenced, and in between
the passage is smooth. Here you build its well-known approximation with tanh:

    gelu(x) = 0.5 * x * (1 + tanh(u))    where    u = sqrt(2 / pi) * (x + 0.044715 * x**3)

Why it matters: BERT, GPT-2 and many transformers after them use it between their linear layers.
And PyTorch could derive this formula for you, but not every one: as soon as a forward pass leaves
PyTorch (a kernel of your own, a simulator), or as its automatic backward pass is too slow or too
hungry for memory, you write a `torch.autograd.Function`. A wrong derivative gives no error message,
only a network that learns badly. So you also write the two checks that find it: one against
PyTorch's own GELU, one against finite differences.

Source: Hendrycks and Gimpel (2016), "Gaussian Error Linear Units (GELUs)", section 2.

These rules hold for everything that you write here:

- It works in float32 and in float64; a tensor that comes back has the dtype and device of `x`.
- Your values are compared with the default tolerances of `torch.testing.assert_close`. In float64
  they are as small as 1e-7, so write the constants in full: `math.sqrt(2 / math.pi)`, not 0.798.
- It leaves what it is given as it found it: the values, `.grad` and `requires_grad` of `x`, and in
  the backward pass the values of the saved `x` and of `grad_output`.
- It does not touch the global random state, neither by seeding nor by drawing from it.
"""

from typing import Any

import torch
from torch import Tensor


class GELUFunction(torch.autograd.Function):
    """GELU (the tanh approximation) with a backward pass of your own.

    Autograd calls both methods itself, and passes them a `ctx`, which carries what `forward` saves
    over to `backward`. Both are static methods. If you like PyTorch's newer style better, write
    `forward(x)` without `ctx`, and a third static method `setup_context(ctx, inputs, output)` that
    saves: either is fine.

    PyTorch's ready-made operator (`F.gelu`, `nn.GELU`, `torch.ops.aten.gelu`) is not allowed in
    either pass, however you reach it.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return `0.5 * x * (1 + tanh(u))`, elementwise, and save `x` for the backward pass.

        `x` has any shape, for instance (batch, features); so has the result. The values are those
        of the formula for any |x| of up to 1e4.

        Save `x` itself, with `ctx.save_for_backward`. Autograd then knows about it: if someone
        changes `x` in place before the backward pass, autograd raises a RuntimeError ("... has
        been modified by an inplace operation") in place of a wrong gradient. An attribute like
        `ctx.x = x`, or a saved copy, would hide the change.
        """
        # TODO: save x, compute the formula.
        raise NotImplementedError("GELUFunction.forward: save x, compute the tanh formula")

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return the gradient with respect to `x`: `grad_output` times GELU's derivative at `x`.

        `grad_output` is the gradient of the final result with respect to this function's output.
        It has the shape of `x`; its values may be anything, and it need not be contiguous in memory.

        - Write the derivative by hand, as a formula: first the product rule, then the chain rule
          through tanh and through `u`. `torch.autograd.grad`, `.backward()` and their relatives
          (`torch.func.grad`, ...) are not allowed in here. Calling another Function's `apply` is.
        - It is finite, neither inf nor NaN, for |x| of up to 1e4. Mind what overflows on the way.
        - It can itself be differentiated, with respect to `grad_output` and to `x`: autograd
          records what you compute here from `x` as it records any other code, as long as you work
          with tensors that it can follow back to `x` and to `grad_output`.
          `torch.autograd.gradgradcheck` passes for |x| of up to 5.
        """
        # TODO: get x back from ctx, differentiate the formula by hand.
        raise NotImplementedError("GELUFunction.backward: the derivative, by hand")


def gelu(x: Tensor) -> Tensor:
    """Return GELU of `x`, elementwise, through `GELUFunction.apply`.

    `x` has any shape, none () and empty ones like (0,) or (2, 0, 3) included; the result has the
    same one. Return what `apply` returns as it is, so that the result's `grad_fn` is the backward
    node of GELUFunction.
    """
    # TODO: call GELUFunction.apply.
    raise NotImplementedError("gelu: call GELUFunction.apply")


def gradient_error(x: Tensor) -> float:
    """Return how far your gradient is from PyTorch's: the largest absolute difference at `x`.

    Compare the gradient of `gelu(x).sum()` with the gradient of
    `torch.nn.GELU(approximate="tanh")(x).sum()`, both with respect to `x` and both computed in the
    dtype of `x`. (This is where PyTorch's GELU is allowed: as something to compare with.)

    `x` has any shape and may or may not require a gradient. Its `.grad` and `requires_grad` are
    afterwards what they were. The result is a Python number, 0.0 for an empty `x`. For a correct
    backward pass it is not quite zero, but about 1e-7 in float32 and 1e-16 in float64.
    """
    # TODO: take both gradients without touching x.grad, then the largest absolute difference.
    raise NotImplementedError("gradient_error: compare with nn.GELU(approximate='tanh')")


def check_gradients(x: Tensor) -> bool:
    """Tell whether the gradient of `gelu` at `x` agrees with finite differences.

    The answer is what `torch.autograd.gradcheck(gelu, ..., raise_exception=False)` says, with its
    default tolerances, of `gelu` at the values of `x` in float64: in float32 a finite difference
    drowns in rounding errors. `x` may itself be float32 or float64, and may or may not require a
    gradient; it is left as it was.

    True where the gradients agree, False, not an exception, where they disagree. But where there
    is no backward pass to check, because it still raises NotImplementedError, that error comes
    through: "not written" is not the same as "wrong".
    """
    # TODO: gradcheck in float64, on a copy of x.
    raise NotImplementedError("check_gradients: torch.autograd.gradcheck in float64")
