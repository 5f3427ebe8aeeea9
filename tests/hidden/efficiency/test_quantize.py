"""Tests of absmax_scale, quantize, dequantize, fake_quantize and QuantizedLinear."""

from __future__ import annotations

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, any_gradients, assert_tensor, laws, promise, within
from grader.judge.student import Student

# Tolerances for sums in float32, which may be added up in any order.
SUMS = {"rtol": 1e-4, "atol": 1e-5}
# Numbers are this near to integers times the scale. None is at a half, which may be rounded either way.
NEAR = 0.45


# --- the scale -----------------------------------------------------------------------------------


@promise("absmax_scale", points=4, hint="x.abs().amax() / 127.")
def test_scale(code: Student, draw: Draw) -> Cases:
    """The scale of a tensor is 0-d: its largest magnitude, of either sign, divided by 127."""
    for sign in (1, -1):
        for shape in [(40,), (3, 4, 5)]:
            x = sign * (draw.normal(*shape).abs() + 0.1)
            yield f"the scale for an x of shape {shape}", code.function("absmax_scale")(x)


@promise("absmax_scale", points=4, hint="The largest over all dimensions except axis.")
def test_scale_of_channels(code: Student, draw: Draw) -> Cases:
    """Each channel along axis has a scale of its own."""
    for shape, axis in [((5, 5), 0), ((5, 5), 1), ((4, 4, 4), 1), ((2, 3, 4, 5), 3)]:
        scale = code.function("absmax_scale")(draw.normal(*shape), axis)
        yield f"the scales for an x of shape {shape} and axis = {axis}", scale


@promise("absmax_scale", points=2, hint="torch.where(largest > 0, largest / 127, 1.0).")
def test_zero(code: Student, draw: Draw) -> Cases:
    """The scale of zeros is 1, for a whole tensor and for a single channel."""
    yield "the scale of zeros", code.function("absmax_scale")(torch.zeros(4))
    rows = draw.normal(5, 3) * (draw.permutation(5) > 1)[:, None]
    yield "the scales where two channels are zeros", code.function("absmax_scale")(rows, 0)


# --- quantize and dequantize ---------------------------------------------------------------------


@promise("quantize", points=5, hint="(x / scale).round(), and .to(torch.int8) in the end.")
def test_quantize(code: Student, draw: Draw) -> Cases:
    """Numbers within the range are divided by the scale, and rounded to the nearest integer, int8."""
    for shape in [(50,), (3, 4, 5)]:
        scale = torch.tensor(draw.number(0.02, 0.3))
        q = code.function("quantize")(scale * steps(draw, *shape), scale)
        yield f"q for an x of shape {shape}", q


@promise("quantize", points=4, hint=".clamp(-127, 127) before .to(torch.int8).")
def test_clamp(code: Student, draw: Draw) -> Cases:
    """Numbers outside the range become -127 or 127."""
    scale = torch.tensor(draw.number(0.02, 0.3))
    outside = draw.uniform(30, low=127.6, high=900.0) * (2 * draw.integers(30, high=2) - 1)
    yield "q for numbers outside of the range", code.function("quantize")(scale * outside, scale)


@promise("quantize", points=3, hint="scale.reshape(1, -1, 1), with the -1 at the place of axis.")
def test_quantize_channels(code: Student, draw: Draw) -> Cases:
    """Each channel along axis is divided by its own scale."""
    for shape, axis in [((5, 5), 0), ((5, 5), 1), ((4, 4, 4), 1), ((2, 3, 4, 5), 3)]:
        scale = draw.uniform(shape[axis], low=0.02, high=0.3)
        x = along(scale, len(shape), axis) * steps(draw, *shape)
        q = code.function("quantize")(x, scale, axis)
        yield f"q for an x of shape {shape} and axis = {axis}", q


@promise("dequantize", points=3, hint="q times the scale, along axis.")
def test_dequantize(code: Student, draw: Draw) -> Cases:
    """Integers are multiplied by the scale, or each channel by its own, in the dtype of the scale."""
    float32, float64 = torch.float32, torch.float64
    for shape, axis, dtype in [
        ((50,), None, float32),
        ((5, 5), 0, float64),
        ((4, 4, 4), 1, float32),
    ]:
        scale = draw.uniform(*() if axis is None else (shape[axis],), low=0.02, high=0.3).to(dtype)
        q = draw.integers(*shape, low=-127, high=128).to(torch.int8)
        result = any_gradients(code.function("dequantize")(q, scale, axis))
        yield f"the numbers for a q of shape {shape} and axis = {axis}", result


# --- fake quantization ---------------------------------------------------------------------------


@promise("fake_quantize", points=3, hint="The value is dequantize(quantize(x)).")
def test_fake(code: Student, draw: Draw) -> Cases:
    """The value is the one that int8 gives, within the range and outside it."""
    for largest in (127, 300):
        scale = torch.tensor(draw.number(0.02, 0.3))
        x = scale * steps(draw, 40, largest=largest)
        what = f"the value for numbers up to {largest} times the scale"
        yield what, any_gradients(code.function("fake_quantize")(x, scale))


# The next two tests do not compare the value, so that a slip in rounding costs nothing there.
@promise(
    "fake_quantize",
    points=4,
    hint="a + (b - a).detach() has b's value and a's gradient.",
    word="x itself has this gradient",
)
def test_gradient_inside(code: Student, draw: Draw) -> Cases:
    """Within the range the incoming gradient reaches x as it is."""
    scale = torch.tensor(draw.number(0.02, 0.3))
    yield "the gradient of x", gradient(code, draw, scale * steps(draw, 40, largest=126), scale)


@promise("fake_quantize", points=3, hint="The gradient of x.clamp(-127 * scale, 127 * scale).")
def test_gradient_outside(code: Student, draw: Draw) -> Cases:
    """The gradient is 0 where x was clamped, and reaches x as it is elsewhere."""
    scale = torch.tensor(draw.number(0.02, 0.3))
    near, far = draw.uniform(5, low=127.6, high=128.4), draw.uniform(10, low=128.0, high=300.0)
    x = torch.cat([steps(draw, 20, largest=126), near, far])
    yield "the gradient of x", gradient(code, draw, scale * torch.cat([x, -x]), scale)


@promise("fake_quantize", points=2, hint="Each channel ends at 127 times its own scale.")
def test_fake_channels(code: Student, draw: Draw) -> Cases:
    """With an axis, each channel has its own steps and its own range."""
    scale = draw.uniform(4, low=0.02, high=0.3)
    outside = draw.uniform(4, 4, 2, low=128.0, high=300.0)
    x = torch.cat([steps(draw, 4, 4, 2, largest=126), outside], dim=-1) * along(scale, 3, 1)
    yield "the gradient of x", gradient(code, draw, x, scale, 1)
    yield "the value", any_gradients(code.function("fake_quantize")(x, scale, 1))


# --- the layer -----------------------------------------------------------------------------------


@promise("QuantizedLinear.__init__", points=4, hint="register_buffer, with the axis 0.")
def test_state(code: Student, draw: Draw) -> Cases:
    """The state dict has weight in int8, one scale for each output, and bias if there is one."""
    for bias in (draw.normal(5), None):
        what = "without" if bias is None else "with"
        yield f"the state of a layer {what} a bias", code.run("state", weight(draw), bias)


@promise("QuantizedLinear.forward", points=4, hint="F.linear(x, dequantize(...), self.bias).")
def test_layer(code: Student, draw: Draw) -> Cases:
    """The output is that of a linear layer with the dequantized weight, for any leading dimensions."""
    for leading in [(4,), (2, 3), ()]:
        x, bias = draw.normal(*leading, 5), draw.normal(5)
        layer = code.module("QuantizedLinear", code.made("linear", weight(draw), bias))
        yield (
            f"the output for an x of shape {(*leading, 5)}",
            any_gradients(within(layer(x), **SUMS)),
        )


@promise(
    "QuantizedLinear.forward", hint="Dequantize with the layer's own scale, of the dtype of x."
)
def test_layer_of_float64(code: Student, draw: Draw) -> Cases:
    """A float64 layer computes in float64."""
    layer = code.module("QuantizedLinear", code.made("linear", weight(draw).double(), None))
    yield "the output", any_gradients(layer(draw.normal(3, 5, dtype=torch.float64)))


@promise("QuantizedLinear.forward", hint="If linear.bias is None, the layer's bias is None, too.")
def test_layer_without_bias(code: Student, draw: Draw) -> Cases:
    """A linear layer without a bias is fine."""
    layer = code.module("QuantizedLinear", code.made("linear", weight(draw), None))
    yield "the output", any_gradients(within(layer(draw.normal(3, 5)), **SUMS))


# --- all of them ---------------------------------------------------------------------------------


@promise(
    "absmax_scale",
    hint="Compute with new tensors: clamp, not clamp_.",
    word="code that returns x passes, too",
)
def test_laws(student: Student) -> None:
    """The scale has the dtype of x; x may have any strides, and nothing changes it."""
    x, scale = torch.randn(4, 3), torch.rand(4) + 0.1
    laws.check_dtypes(student, "absmax_scale", x, 0)
    laws.check_layouts(student, "absmax_scale", x, 0)
    laws.check_changes_nothing(student, "absmax_scale", x, 0)
    for name in ("quantize", "fake_quantize"):
        laws.check_changes_nothing(student, name, x, scale, 0)


# --- helpers of the tests ------------------------------------------------------------------------


def steps(draw: Draw, *shape: int, largest: int = 127) -> Tensor:
    """Draw numbers near integers up to `largest`, none of them at a half."""
    integers = draw.integers(*shape, low=-largest, high=largest + 1)
    return integers + draw.uniform(*shape, low=-NEAR, high=NEAR)


def along(scale: Tensor, dims: int, axis: int) -> Tensor:
    """Reshape the scale so that it broadcasts along axis."""
    return scale.reshape([-1 if dim == axis else 1 for dim in range(dims)])


def gradient(
    code: Student, draw: Draw, x: Tensor, scale: Tensor, axis: int | None = None
) -> Tensor:
    """Return the gradient of x in fake_quantize, for a random gradient of the result."""
    x = x.requires_grad_()
    output = assert_tensor(code.function("fake_quantize")(x, scale, axis), shape=x.shape)
    laws.check_attached(output)
    (result,) = torch.autograd.grad((output * draw.normal(*x.shape)).sum(), x)
    return result


def weight(draw: Draw) -> Tensor:
    """Draw a square weight with no element at a half: the largest of each row is 127 times its scale."""
    steps_of = steps(draw, 5, 5, largest=126)
    steps_of[torch.arange(5), draw.permutation(5)] = 127.0
    return steps_of * draw.uniform(5, 1, low=0.002, high=0.03)
