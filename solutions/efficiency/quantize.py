"""Write int8 quantization: a model's numbers in a quarter of the memory of float32.

A float x becomes an integer q, and is read back as x':

    scale = max|x| / 127        q = round(x / scale), clamped to [-127, 127]        x' = scale * q

This is symmetric: 0 stays 0, and -128 is not used. Inside the range, x' differs from x by at most scale / 2.

- *Per tensor* there is one scale. A single large number makes the steps coarse for all others.
- *Per channel* each slice along a dimension has its own, for example each row of a weight (out, in).

In all functions `axis` says which. If it is None, `scale` is 0-d. Otherwise `axis` is from 0 to `x.dim() - 1`,
and `scale` is (x.shape[axis],), with the scale of each channel. Scales are above 0.

Not allowed: PyTorch's own quantization (`torch.quantize_per_channel`, `torch.fake_quantize_per_tensor_affine`
and the like).

Source: Krishnamoorthi (2018), "Quantizing deep convolutional networks for efficient inference: A whitepaper",
sections 2 and 3; Bengio et al. (2013), "Estimating or Propagating Gradients Through Stochastic Neurons for
Conditional Computation", on the straight-through estimator.

What holds for every exercise: docs/every-exercise.md.
"""

import torch
from torch import Tensor, nn

# begin solution: a helper


def along(scale: Tensor, x: Tensor, axis: int | None) -> Tensor:
    """Return `scale` in a shape that broadcasts along `axis` of `x`."""
    if axis is None:
        return scale
    shape = [1] * x.dim()
    shape[axis] = -1
    return scale.reshape(shape)


# end solution


def absmax_scale(x: Tensor, axis: int | None = None) -> Tensor:
    """Return `max|x| / 127`, of the whole tensor or of each channel along `axis`.

    Where all of `x` or of a channel is 0, the scale is 1: dividing by 0 would make NaN of these zeros. `x` has
    at least one element.
    """
    # begin solution: largest magnitude, over all other dimensions
    sizes = x.abs() if axis is None else x.abs().movedim(axis, 0).reshape(x.shape[axis], -1)
    largest = sizes.amax() if axis is None else sizes.amax(1)
    return torch.where(largest > 0, largest / 127, 1.0)
    # end solution


def quantize(x: Tensor, scale: Tensor, axis: int | None = None) -> Tensor:
    """Return q: int8, of the shape of `x`.

    `x / scale` is rounded to the nearest integer (a half either way), and what lies beyond -127 or 127 becomes
    -127 or 127.
    """
    # begin solution: divide, round, clamp, convert
    # The conversion comes last: int8 would turn 128 into -128.
    return (x / along(scale, x, axis)).round().clamp(-127, 127).to(torch.int8)
    # end solution


def dequantize(q: Tensor, scale: Tensor, axis: int | None = None) -> Tensor:
    """Return `scale * q`, of the shape of `q` (int8) and the dtype of `scale`."""
    # begin solution: multiply
    return q * along(scale, q, axis)
    # end solution


def fake_quantize(x: Tensor, scale: Tensor, axis: int | None = None) -> Tensor:
    """Return what int8 makes of `x`, `dequantize(quantize(x))`, with a gradient to train by.

    The derivative of rounding is 0 almost everywhere, so that nothing would learn. The straight-through
    estimator takes rounding for the identity: where `x / scale` lies from -127 to 127, the gradient of the
    result reaches `x` as it is. Where `x` was clamped, beyond -127.5 or 127.5, the gradient is 0. In the half
    step between, it is up to you; so is the gradient of `scale`.
    """
    # begin solution: value of int8, gradient of clamp
    # Numbers up to 127.5 round to 127 without being clamped. With a limit of 127, a rounding error could stop
    # the gradient of the largest x.
    limit = 127.5 * along(scale, x, axis)
    clamped = x.clamp(-limit, limit)
    rounded = dequantize(quantize(x, scale, axis), scale, axis)
    return clamped + (rounded - clamped).detach()
    # end solution


class QuantizedLinear(nn.Module):
    """A linear layer for inference, with its weight in int8 and one scale for each output.

    Its state dict has `weight` (out, in), int8, `scale` (out,), and `bias` (out,) if `linear` has one. Whether
    these are buffers or parameters is up to you.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        """Quantize the weight of `linear` per output channel. Scale and bias have its dtype."""
        super().__init__()
        # begin solution: keep q, scale and bias
        weight = linear.weight.detach()
        scale = absmax_scale(weight, 0)
        self.register_buffer("scale", scale)
        self.register_buffer("weight", quantize(weight, scale, 0))
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())
        # end solution

    def forward(self, x: Tensor) -> Tensor:
        """Return what a linear layer with the dequantized weight gives: (..., in) becomes (..., out)."""
        # begin solution: linear with the dequantized weight
        return nn.functional.linear(x, dequantize(self.weight, self.scale, 0), self.bias)
        # end solution
