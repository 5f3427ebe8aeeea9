"""Write ReLU as a custom autograd Function, and decide what its derivative is at 0.

    relu(x) = max(x, 0)        derivative: 1 where x >= 0, and 0 where x < 0

At 0 the function has a kink, so that no single slope is *the* derivative there. Any number from 0 to 1 is
a *subgradient*: the slope of a line through the kink that lies nowhere above the function. A library has to
choose one. `torch.relu` takes 0. Here you take 1, as `x.clamp(min=0)` does. The choice matters: a network
whose activations start at exactly 0 learns with the one and stands still with the other.

In a `torch.autograd.Function` you say yourself what the gradient is. Custom kernels, straight-through
estimators and clipped gradients are written that way, and all of them must get the same few things right:
what to save, what to leave alone, how to stay differentiable.

Source: Nair and Hinton (2010), "Rectified Linear Units Improve Restricted Boltzmann Machines";
Bertoin et al. (2021), "Numerical influence of ReLU'(0) on backpropagation".

Everything works in float32 and float64, for finite numbers in tensors of any shape (also 0-d and empty) and
any strides. It leaves `x`, its `.grad` and `requires_grad`, `grad_output`, and the global random state as
they were.
"""

from typing import Any

import torch
from torch import Tensor


class ReLUFunction(torch.autograd.Function):
    """ReLU with a backward pass of your own.

    Both methods are static; autograd calls them, with a `ctx` that carries what `forward` saves over to
    `backward`. PyTorch's newer style, `forward(x)` without `ctx` and a third static method
    `setup_context(ctx, inputs, output)` that saves, is fine, too.

    PyTorch's operators of this family (relu, relu6, threshold, leaky_relu, prelu, rrelu, hardtanh, elu,
    celu, selu, and their backward operators) are not allowed in either pass. `clamp`, `maximum`, `where`,
    comparisons and masks are fine.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return max(x, 0), elementwise: a new tensor of the shape and dtype of `x`.

        |x| may be as large as 1e30. The result shares no memory with `x`, not even if nothing in `x` is
        negative.

        You may save `x`, a mask, or something else for the backward pass. But if `x` is changed in place
        before that pass, either autograd raises its own error ("... has been modified by an inplace
        operation"), or the gradient is that at the old `x`, never that at the new one.
        `ctx.save_for_backward` makes autograd check this; an attribute like `ctx.x = x` does not.
        """
        # TODO: save what backward needs, compute.
        raise NotImplementedError("ReLUFunction.forward: save what backward needs, compute")

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return the gradient with respect to `x`: `grad_output` where x >= 0, and 0 where x < 0.

        `grad_output` is the gradient of the final result with respect to this function's output, of the
        shape of `x`. It may be expanded (one number in memory that stands for many), as it is after a
        `sum()`. Do not change it.

        - Write the derivative by hand: `torch.autograd.grad`, `.backward()` and their relatives
          (`torch.func.grad`, ...) are not allowed here. The `apply` of another Function is.
        - The backward pass can itself be differentiated. Autograd records what you compute from
          `grad_output` like any other code, unless `once_differentiable`, `no_grad`, `.data` or
          `grad_output.detach()` prevents it. `torch.autograd.gradgradcheck` passes away from 0.
        """
        # TODO: pass grad_output on where x >= 0.
        raise NotImplementedError("ReLUFunction.backward: pass grad_output on where x >= 0")


def relu(x: Tensor) -> Tensor:
    """Return max(x, 0), elementwise, through `ReLUFunction.apply`.

    Return exactly what `apply` returns, so that the `grad_fn` of the result is the backward node of
    ReLUFunction. PyTorch's own relu and its relatives are not allowed here either.
    """
    # TODO: call ReLUFunction.apply.
    raise NotImplementedError("relu: call ReLUFunction.apply")


def differs_from_torch(x: Tensor) -> Tensor:
    """Return a bool tensor of the shape of `x`: where your gradient and PyTorch's differ.

    It is True where the gradient of `relu(x).sum()` with respect to `x` differs from that of
    `torch.relu(x).sum()`, and False elsewhere.

    `x` may be plain data, a leaf that requires a gradient, or the result of other operations. Neither `x`
    nor any `.grad` changes, and what is already in `x.grad` does not matter. Here, `torch.relu` is allowed.
    """
    # TODO: compare both gradients, touch no .grad.
    raise NotImplementedError("differs_from_torch: compare both gradients, touch no .grad")
