"""Write ReLU as a custom autograd Function, and decide what its derivative is at 0.

    relu(x) = max(x, 0)        derivative: 1 where x >= 0, and 0 where x < 0

At 0 the function has a kink: any number from 0 to 1 is a *subgradient* there, and a library has to choose one.
`torch.relu` takes 0. Here you take 1, as `x.clamp(min=0)` does: a network whose activations start at exactly 0
learns with the one and stands still with the other.

`x` is finite and has any shape, also 0-d and empty.

Source: Bertoin et al. (2021), "Numerical influence of ReLU'(0) on backpropagation".

What holds for every exercise: docs/every-exercise.md.
"""

from typing import Any

import torch
from torch import Tensor


class ReLUFunction(torch.autograd.Function):
    """ReLU with a backward pass of your own.

    Both methods are static; `ctx` carries what `forward` saves over to `backward`. The newer style,
    `forward(x)` and a third static method `setup_context(ctx, inputs, output)`, is fine, too.

    Not allowed in either: PyTorch's operators of this family (relu, relu6, threshold, leaky_relu, prelu, rrelu,
    hardtanh, elu, celu, selu). `clamp`, `maximum`, `where` and masks are fine.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return max(x, 0), elementwise: a new tensor that shares no memory with `x`. |x| may be 1e30.

        Save what you like. But if `x` is changed in place before the backward pass, either autograd raises its
        own error or the gradient is that at the old `x`: `ctx.save_for_backward` makes autograd check this, an
        attribute like `ctx.x = x` does not.
        """
        # begin solution: save what backward needs, compute
        # Save x, not the result, in which 0 and negative numbers look the same.
        ctx.save_for_backward(x)
        return x.clamp(min=0)
        # end solution

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return the gradient with respect to `x`: `grad_output` where x >= 0, and 0 where x < 0.

        `grad_output` has the shape of `x`. It may be expanded (one number in memory that stands for many), as
        after a `sum()`. Do not change it.

        - Write the derivative by hand: `torch.autograd.grad`, `.backward()` and the like (`torch.func.grad`)
          are not allowed here.
        - The backward pass can itself be differentiated: `torch.autograd.gradgradcheck` passes away from 0. So
          `once_differentiable`, `no_grad`, `.data` and `grad_output.detach()` are wrong here.
        """
        # begin solution: pass grad_output on where x >= 0
        x: Tensor
        (x,) = ctx.saved_tensors
        return grad_output * (x >= 0)
        # end solution


def relu(x: Tensor) -> Tensor:
    """Return exactly what `ReLUFunction.apply` returns: its `grad_fn` is the backward node of ReLUFunction.

    PyTorch's own relu and its relatives are not allowed here either.
    """
    # begin solution: call ReLUFunction.apply
    # torch leaves apply without annotations.
    result: Tensor = ReLUFunction.apply(x)  # type: ignore[no-untyped-call]
    return result
    # end solution


def differs_from_torch(x: Tensor) -> Tensor:
    """Return a bool tensor of the shape of `x`: where your gradient and PyTorch's differ.

    It is True where the gradient of `relu(x).sum()` with respect to `x` differs from that of
    `torch.relu(x).sum()`. `x` may be plain data, a leaf that requires a gradient, or a result; what is already
    in its `.grad` does not matter, and stays. Here, `torch.relu` is allowed.
    """
    # begin solution: compare both gradients, touch no .grad
    # A detached copy is a leaf of its own: torch.autograd.grad gives its gradients without storing
    # them, where two calls of backward() would add up in one .grad.
    point = x.detach().clone().requires_grad_()
    (ours,) = torch.autograd.grad(relu(point).sum(), point)
    (theirs,) = torch.autograd.grad(torch.relu(point).sum(), point)
    return ours != theirs
    # end solution
