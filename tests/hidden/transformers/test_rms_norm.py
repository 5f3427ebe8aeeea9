"""Tests of RMSNormFunction, both of its passes, and of the layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, any_gradients, assert_tensor, laws, promise, within
from grader.judge.student import Student

# EPS is so small that its place does not show. The tests about its place use LARGE_EPS.
EPS, LARGE_EPS = 1e-12, 0.5
# Tolerances for sums in float32, in any order.
SUMS = {"rtol": 1e-4, "atol": 1e-5}
# Tolerances for results that are rounded to half precision once or twice.
HALF = {"rtol": 1.6e-2, "atol": 1e-3}


# --- forward -------------------------------------------------------------------------------------


@promise(
    "RMSNormFunction.forward",
    points=7,
    hint="x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight.",
)
def test_forward(code: Student, draw: Draw) -> Cases:
    """Each row is divided by the root of its mean square, and multiplied by the weight."""
    output = code.function("rms_norm")(3 * draw.normal(5, 6) + 1, draw.normal(6), EPS)
    yield "the output", any_gradients(within(output, **SUMS))


# A single feature is its own mean, so that mistakes in the mean and in the weight fail only the test above.
@promise("RMSNormFunction.forward", points=3, hint="sqrt(mean + eps), not sqrt(mean) + eps.")
def test_eps(code: Student, draw: Draw) -> Cases:
    """eps is added to the mean square, under the root."""
    output = code.function("rms_norm")(draw.normal(9, 1), torch.ones(1), LARGE_EPS)
    yield f"the output for eps = {LARGE_EPS}", any_gradients(within(output, **SUMS))


@promise(
    "RMSNormFunction.forward",
    points=3,
    hint="Square and average x.float(), and give the result the dtype of x with .to(x.dtype).",
)
def test_float16(code: Student, draw: Draw) -> Cases:
    """In float16 the output is right where squares overflow, and it is float16."""
    x = draw.normal(9, 1, scale=1000.0, dtype=torch.float16)
    output = code.function("rms_norm")(x, torch.ones(1, dtype=torch.float16), EPS)
    yield "the output for a float16 x of about 1000", any_gradients(within(output, **HALF))


@promise(
    "RMSNormFunction.forward",
    hint="Name dimensions from behind: dim=-1, keepdim=True.",
    after="test_forward",
)
def test_any_x(code: Student, draw: Draw) -> Cases:
    """Any leading dimensions are fine, also none or of size 0, and x may have any layout in memory."""
    rms_norm, weight = code.function("rms_norm"), draw.normal(7)
    for shape in [(7,), (2, 3, 2, 7), (0, 7)]:
        output = rms_norm(draw.normal(*shape), weight)
        yield f"the output for an x of shape {shape}", any_gradients(within(output, **SUMS))
    for layout, x in laws.layouts_of(draw.normal(2, 3, 7)).items():
        output = any_gradients(within(rms_norm(x, weight), **SUMS))
        yield f"the output for an x {layout} in memory", output


# --- backward ------------------------------------------------------------------------------------


@promise(
    "RMSNormFunction",
    points=2,
    hint="class RMSNormFunction(torch.autograd.Function), and rms_norm as it was given.",
    word="a forward that returns any tensor passes, too",
)
def test_backward_is_used(code: Student, draw: Draw) -> Cases:
    """The gradients of rms_norm are those that RMSNormFunction.backward returns."""
    x, of_x, of_weight = draw.normal(3, 6), draw.normal(3, 6), draw.normal(6)
    gradients = code.run("gradients_of_rms_norm", x, of_x, of_weight)
    yield "the gradients of rms_norm, where backward returns drawn numbers", gradients


# These tests compare only the gradients, so that a mistake in forward does not fail them.
@promise(
    "RMSNormFunction.backward",
    points=16,
    hint="r * (g - n * mean(g * n)), with n = x * r and g = grad_output * weight.",
    after="test_backward_is_used",
)
def test_gradient_of_x(code: Student, draw: Draw) -> Cases:
    """The gradient of x is right, including the part through r, which depends on every element."""
    of_x, _ = gradients(code, draw, draw.normal(5, 6), draw.normal(6))
    yield "the gradient of x", within(of_x, **SUMS)


@promise(
    "RMSNormFunction.backward",
    points=6,
    hint="grad_output * x * r, summed over all dimensions but the last.",
    after="test_backward_is_used",
)
def test_gradient_of_weight(code: Student, draw: Draw) -> Cases:
    """The gradient of the weight is the sum over all rows, (dim,) for any leading dimensions."""
    for leading in [(5,), (2, 3), (), (0,)]:
        _, of_weight = gradients(code, draw, draw.normal(*leading, 6), draw.normal(6))
        what = f"the gradient of weight for an x of shape {(*leading, 6)}"
        yield what, within(of_weight, **SUMS)


@promise(
    "RMSNormFunction.backward",
    points=3,
    hint="Use the r of forward, with its eps. The derivative of r is -r**3 * x / dim.",
    after="test_backward_is_used",
)
def test_gradient_with_eps(code: Student, draw: Draw) -> Cases:
    """The gradient of x is right for a large eps, and finite for a row of zeros."""
    for what, x in {"eps = 0.5": draw.normal(5, 6), "a row of zeros": torch.zeros(1, 6)}.items():
        of_x, _ = gradients(code, draw, x, torch.ones(6), LARGE_EPS)
        yield f"the gradient of x for {what}", within(of_x, **SUMS)


@promise(
    "RMSNormFunction.backward",
    points=4,
    hint="Convert the saved tensors and grad_output with .float() before the first product.",
    after="test_backward_is_used",
)
def test_bfloat16(code: Student, draw: Draw) -> Cases:
    """In bfloat16 the gradient is right even if it is a small difference of large numbers."""
    x = draw.normal(4, 64, dtype=torch.bfloat16)
    # Nearly parallel to x. In that direction the output does not change, so the gradient is small.
    incoming = (8 * x + draw.normal(4, 64)).bfloat16()
    yield "the gradient of a bfloat16 x", within(code.run("gradient_of", x, incoming), **HALF)


@promise(
    "RMSNormFunction",
    hint=".float() rounds a float64 x: only float16 and bfloat16 need float32.",
    after=("test_forward", "test_gradient_of_x"),
)
def test_float64(code: Student, draw: Draw) -> Cases:
    """In float64 both passes have the precision of float64."""
    x = draw.normal(3, 5, dtype=torch.float64, grad="x")
    weight = draw.normal(5, dtype=torch.float64, grad="weight")
    yield "the output", code.function("rms_norm")(x, weight, 1e-3)


# --- the layer -----------------------------------------------------------------------------------


@promise("RMSNorm.__init__", points=2, hint="self.weight = nn.Parameter(torch.ones(dim)).")
def test_parameters(student: Student) -> None:
    """The layer has one parameter, weight, (dim,), and nothing else in its state dict."""
    layer = student.module("RMSNorm", 6)
    laws.check_parameters(layer, {"weight": (6,)}, call="RMSNorm(6)")
    laws.check_state_dict(layer, ["weight"])


@promise("RMSNorm.__init__", hint="torch.ones(dim), and eps = 1e-6.")
def test_start(code: Student, draw: Draw) -> Cases:
    """A new layer multiplies by ones, and its eps is 1e-6."""
    layer = code.module("RMSNorm", 1)
    yield "the output of a new layer", any_gradients(layer(1e-3 * draw.normal(9, 1)))


@promise("RMSNorm.forward", hint="return rms_norm(x, self.weight, self.eps)")
def test_layer(code: Student, draw: Draw) -> Cases:
    """The layer multiplies by its weight, and uses its eps."""
    layer = draw.fill(code.module("RMSNorm", 1, LARGE_EPS))
    yield "the output", any_gradients(layer(draw.normal(9, 1)))


@promise("RMSNorm.forward", points=6, hint="Call rms_norm, and compute nothing else.")
def test_layer_uses_the_function(code: Student, draw: Draw) -> Cases:
    """The gradients of the layer are those that RMSNormFunction.backward returns."""
    x, of_x, of_weight = draw.normal(3, 6), draw.normal(3, 6), draw.normal(6)
    gradients = code.run("gradients_of_layer", x, of_x, of_weight)
    yield "the gradients of the layer, where backward returns drawn numbers", gradients


# --- helpers of the tests ------------------------------------------------------------------------


def gradients(code: Student, draw: Draw, x: Tensor, weight: Tensor, eps: float = EPS) -> Any:
    """The gradients of x and weight, for a random gradient of the output."""
    x, weight = x.requires_grad_(), weight.requires_grad_()
    output = assert_tensor(code.function("rms_norm")(x, weight, eps), shape=x.shape)
    laws.check_attached(output)
    return torch.autograd.grad((output * draw.normal(*x.shape)).sum(), [x, weight])
