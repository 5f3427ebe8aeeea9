"""Write RMSNorm, the norm of today's language models, with a backward pass of your own.

    r = 1 / sqrt(mean(x**2) + eps)        over the last dimension, one number for each row
    y = x * r * weight                    weight is (dim,), one number for each feature

Unlike LayerNorm it subtracts no mean and adds no bias. `eps` is under the root: a row of zeros stays zeros, and
its gradient is finite.

Every element of a row changes `r`, so that each gradient depends on the whole row. In float16 squares overflow
(300**2 is inf), and bfloat16 has too few digits for differences: for these, both passes compute in float32.

Not allowed: PyTorch's own norms (`F.rms_norm`, `nn.RMSNorm`, `F.layer_norm` and the like).

Source: Zhang and Sennrich (2019), "Root Mean Square Layer Normalization", section 3.

What holds for every exercise: docs/every-exercise.md.
"""

from typing import Any

import torch
from torch import Tensor, nn

# begin solution: a helper
HALVES = (torch.float16, torch.bfloat16)


def widened(x: Tensor) -> Tensor:
    """Return a float16 or bfloat16 `x` as float32, and any other as it is."""
    return x.float() if x.dtype in HALVES else x


# end solution


class RMSNormFunction(torch.autograd.Function):
    """RMSNorm with a backward pass of your own.

    Both methods are static. `forward(x, weight, eps)` with a third method `setup_context(ctx, inputs, output)`
    is fine, too. `x` is (..., dim) and `weight` (dim,), both float32, float64, float16 or bfloat16. What you
    save is up to you.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """Return `x * r * weight`: (..., dim), of the dtype of `x`.

        For float16 and bfloat16, compute in float32 and round at the end. Rounding once more before the product
        with `weight`, as Llama does, is fine.
        """
        # begin solution: save what backward needs, compute
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        wide = widened(x)
        r = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
        return (wide * r * widened(weight)).to(x.dtype)
        # end solution

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Return the gradients with respect to `x` (..., dim) and `weight` (dim,), and None for `eps`.

        Write the derivative by hand: `torch.autograd.grad`, `.backward()` and the like (`torch.func.grad`) are
        not allowed here. For float16 and bfloat16, compute in float32 and round at the end. Whether the
        backward pass can itself be differentiated is up to you.
        """
        # begin solution: both gradients, by hand
        x: Tensor
        weight: Tensor
        x, weight = ctx.saved_tensors
        wide, grad = widened(x), widened(grad_output)
        r = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + ctx.eps)
        normed = wide * r
        scaled = grad * widened(weight)
        # The derivative of r with respect to x_j is -r**3 * x_j / dim, so the part through r points along x.
        # Without eps, the gradient is orthogonal to x, because a longer x has the same result.
        grad_x = r * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))
        # All rows share one weight, so their gradients add up.
        grad_weight = (grad * normed).reshape(-1, x.shape[-1]).sum(0)
        return grad_x.to(x.dtype), grad_weight.to(weight.dtype), None
        # end solution


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """Given: RMSNormFunction as a function."""
    # torch leaves apply without annotations.
    result: Tensor = RMSNormFunction.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return result


class RMSNorm(nn.Module):
    """The layer. Its only parameter is `weight`, (dim,), which starts at ones."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        """Make the weight, and remember `eps`."""
        super().__init__()
        # begin solution: a parameter of ones
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps
        # end solution

    def forward(self, x: Tensor) -> Tensor:
        """Return the norm of `x` (..., dim) with the layer's weight and `eps`, by way of RMSNormFunction."""
        # begin solution: call rms_norm
        return rms_norm(x, self.weight, self.eps)
        # end solution
