"""Write ReLU as a custom autograd Function, and decide what its derivative is at 0.

    relu(x) = max(x, 0)        derivative: 1 where x >= 0, and 0 where x < 0

At 0 the function has a kink, so that no single slope is *the* derivative there. Any number from 0 to
1 is a *subgradient*: the slope of a line through the kink that lies nowhere above the function. A
library has to choose one. `torch.relu` takes 0. Here you take 1, as `x.clamp(min=0)` does; -0.0 is a
zero, too. It is a small choice, and it shows: a network whose activations start at exactly 0 learns
with the one and stands still with the other.

Why it matters: in a `torch.autograd.Function` you say yourself what the gradient is. That is how
kernels of your own, straight-through estimators and clipped gradients are written, and all of them
must get the same few things right: what to save, what to leave alone, how to stay differentiable.

Source: Nair and Hinton (2010), "Rectified Linear Units Improve Restricted Boltzmann Machines";
Bertoin et al. (2021), "Numerical influence of ReLU'(0) on backpropagation".

These rules hold for everything that you write here:

- It works in float32 and in float64, for tensors of any shape (0-d () and empty ones like (0,) or
  (2, 0, 3) included) that may lie in memory in any way (transposed, sliced, expanded), on the device
  of `x`.
- It leaves what it is given as it found it: the values, `.grad` and `requires_grad` of `x`, and in
  the backward pass the values of `grad_output`.
- It does not touch the global random state, neither by seeding nor by drawing from it.
- Numbers are finite. What becomes of NaN and infinities is up to you, and so is the sign of a zero.
"""

from typing import Any

import torch
from torch import Tensor


class ReLUFunction(torch.autograd.Function):
    """ReLU with a backward pass of your own.

    Autograd calls both methods itself, and passes them a `ctx`, which carries what `forward` saves
    over to `backward`. Both are static methods. If you like PyTorch's newer style better, write
    `forward(x)` without `ctx`, and a third static method `setup_context(ctx, inputs, output)` that
    saves: either is fine.

    PyTorch's ready-made operators of this family (relu, relu6, threshold, leaky_relu, prelu, rrelu,
    hardtanh, elu, celu, selu, and their backward operators) are not allowed in either pass, however
    you reach them. `clamp`, `maximum`, `where`, comparisons and masks are fine.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return max(x, 0), elementwise: a new tensor of the shape and dtype of `x`.

        |x| may be as large as 1e30. The result shares no memory with `x`, also where nothing in `x` is
        negative, so that whoever changes the one in place does not change the other.

        What you save for the backward pass is up to you: `x`, a mask, something else. But if someone
        changes `x` in place before the backward pass, either autograd raises its own RuntimeError
        ("... has been modified by an inplace operation"), or the gradient is that at the old `x`. It is
        never silently that at the new one. `ctx.save_for_backward` makes autograd watch over what is
        saved; an attribute like `ctx.x = x` does not.
        """
        # TODO: save what backward needs, compute.
        raise NotImplementedError("ReLUFunction.forward: save what backward needs, compute")

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return the gradient with respect to `x`: `grad_output` where x >= 0, and 0 where x < 0.

        `grad_output` is the gradient of the final result with respect to this function's output. It has
        the shape of `x`, and its values may be any finite numbers. It may be expanded (one number in
        memory that stands for many), as it is after a `sum()`, and it is not yours to change.

        - Write the derivative by hand. `torch.autograd.grad`, `.backward()` and their relatives
          (`torch.func.grad`, ...) are not allowed in here. Calling another Function's `apply` is.
        - It can itself be differentiated: autograd records what you compute here from `grad_output` as
          it records any other code, unless something cuts it off (`once_differentiable`, `no_grad`,
          `.data`, `grad_output.detach()`). `torch.autograd.gradgradcheck` passes away from 0.
        """
        # TODO: pass grad_output on where x >= 0.
        raise NotImplementedError("ReLUFunction.backward: pass grad_output on where x >= 0")


def relu(x: Tensor) -> Tensor:
    """Return max(x, 0), elementwise, through `ReLUFunction.apply`.

    Return what `apply` returns as it is, so that the result's `grad_fn` is the backward node of
    ReLUFunction. PyTorch's own relu and its relatives are not allowed here either.
    """
    # TODO: call ReLUFunction.apply.
    raise NotImplementedError("relu: call ReLUFunction.apply")


def differs_from_torch(x: Tensor) -> Tensor:
    """Tell for each element of `x` whether your gradient and PyTorch's differ there.

    The result is a bool tensor of the shape of `x`: True where the gradient of `relu(x).sum()` with
    respect to `x` differs from that of `torch.relu(x).sum()`, and False elsewhere.

    `x` may be plain data, a leaf that requires a gradient, or the result of other operations. Neither
    it nor any `.grad` changes, and what an earlier backward pass left in `x.grad` has no say. How you
    find it out is up to you. (This is where `torch.relu` is allowed.)
    """
    # TODO: compare both gradients, touch no .grad.
    raise NotImplementedError("differs_from_torch: compare both gradients, touch no .grad")
