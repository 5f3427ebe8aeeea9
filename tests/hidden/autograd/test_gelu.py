"""Tests of GELUFunction, gelu, gradient_error and check_gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import (
    Cases,
    Draw,
    any_dtype,
    any_gradients,
    assert_tensor,
    entry,
    exactly,
    laws,
    promise,
    within,
)
from grader.judge.student import Student

# Wide enough for a constant that is rounded to three digits, which the tests in float64 catch, and too narrow
# for another formula, like the one with erf.
CLOSE, CLOSE_GRADIENT, CLOSE_SECOND = 1e-4, 4e-4, 1e-3
# Tolerance for float64. Rounding to float32 is off by 3e-7 here, a constant of six digits by 2e-7.
PRECISION = 1e-7
SHAPES = [(), (2, 0, 3), (7,), (2, 3, 2, 2)]
LARGE = [15.0, 25.0, 40.0, 100.0, 700.0, 2345.0, 1e4]
# check_gradients judges gradients that are wrong by these factors; 1.0 is right.
RIGHT_OR_NOT = [1.0, 1.0, 1.0, 1.5, -1.0, 0.0]
BARELY_AND_CLEARLY = [1.0001, 1.01]
# The gradients are wrong above one of two limits. FAR is an x above the second.
EVERYWHERE, ONLY_FAR, FAR = -1e9, 10.0, 12.0


# --- the value -----------------------------------------------------------------------------------


@promise(
    "GELUFunction.forward",
    points=10,
    hint="0.5 * x * (1 + torch.tanh(u)), with u = math.sqrt(2 / math.pi) * (x + ...).",
)
def test_forward(code: Student, draw: Draw) -> Cases:
    """gelu(x) is 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    x = draw.uniform(11, 11, low=-5, high=5)
    yield "gelu(x)", within(value_at(code, x), atol=CLOSE)


@promise(
    "GELUFunction.forward",
    points=2,
    hint="Write constants in full, as Python numbers, which take on the dtype of x.",
    after="test_forward",
)
def test_dtypes(code: Student, draw: Draw) -> Cases:
    """The result has the dtype of x, float32 or float64, and its precision."""
    laws.check_dtypes(code, "gelu", draw.normal(3, 4), what="gelu(x)")
    x = draw.uniform(201, low=-5, high=5, dtype=torch.float64)
    value = any_gradients(code.function("gelu")(x))
    yield "gelu(x)", within(value, rtol=0, atol=PRECISION)


@promise(
    "GELUFunction.forward",
    hint="Elementwise operations keep any shape; you need no view or reshape.",
    after="test_forward",
)
def test_shapes(student: Student) -> None:
    """The result and the gradient have the shape of x, also where x is 0-d or empty."""
    laws.check_shapes(student, "gelu", SHAPES, gradients=True, what="gelu")


# --- through GELUFunction ------------------------------------------------------------------------


@promise(
    "GELUFunction",
    hint="@staticmethod above both def forward and def backward.",
    after="test_forward",
)
def test_declaration(student: Student) -> None:
    """GELUFunction is a torch.autograd.Function with static methods forward and backward."""
    laws.check_declared(student, "gelu", "GELUFunction")


@promise("gelu", hint="return GELUFunction.apply(x)")
def test_uses_function(student: Student) -> None:
    """gelu goes through GELUFunction.apply, so that your backward is the one that runs."""
    laws.check_applied(student, "gelu", "GELUFunction")


@promise(
    "gelu",
    hint="Return the result of GELUFunction.apply(x), and compute nothing after it.",
    after="test_uses_function",
)
def test_grad_fn(student: Student) -> None:
    """The result's grad_fn is the backward node of GELUFunction."""
    laws.check_grad_fn(student, "gelu", "GELUFunction")


@promise(
    "GELUFunction.forward",
    points=3,
    hint="ctx.save_for_backward(x) in forward, (x,) = ctx.saved_tensors in backward.",
    after="test_uses_function",
)
def test_saved_tensor(student: Student) -> None:
    """If x is changed in place before the backward pass, autograd raises its own error."""
    x = torch.randn(3, 4).double()
    laws.check_saved(student, "gelu", x)
    laws.check_saved(student, "gelu", x.t())


@promise(
    "GELUFunction.backward",
    hint="Compute new tensors: neither a trailing underscore nor += on your arguments.",
    after="test_forward",
)
def test_leaves_arguments(student: Student) -> None:
    """Neither pass changes x, grad_output or the global random state."""
    x, g = torch.randn(3, 4), torch.randn(3, 4)
    gradient = laws.check_changes_nothing(student, "gelu", x, grad_output=g)
    # The gradient is checked, too, because code that does nothing changes nothing either.
    assert_tensor(gradient, shape=x.shape, what="the gradient")


# --- the gradient --------------------------------------------------------------------------------


@promise(
    "GELUFunction.backward",
    points=10,
    hint="Product rule: one term for x and one for tanh(u), which needs the chain rule.",
    after=("test_uses_function", "test_forward"),
)
def test_gradient(code: Student, draw: Draw) -> Cases:
    """The gradient is the derivative of the formula."""
    x = draw.uniform(11, 11, low=-4, high=4)
    gradient = gradient_at(code, x, torch.ones_like(x))
    yield "the gradient of gelu(x).sum()", within(gradient, atol=CLOSE_GRADIENT)


@promise(
    "GELUFunction.backward",
    points=24,
    hint="Multiply grad_output and the derivative, element by element.",
    after="test_gradient",
)
def test_grad_output(code: Student, draw: Draw) -> Cases:
    """The derivative is multiplied by grad_output, which may have any strides."""
    x, grad_output = draw.normal(4, 5, scale=1.5), draw.normal(4, 5)
    gradient = gradient_at(code, x, grad_output)
    yield "the gradient for a random grad_output", within(gradient, atol=CLOSE_GRADIENT)
    for layout, g in laws.layouts_of(grad_output).items():
        gradient = laws.shipped(code, "both_passes")("gelu", x, g)
        what = f"the gradient for a grad_output {layout} in memory"
        yield what, within(gradient, atol=CLOSE_GRADIENT)


@promise(
    "GELUFunction.backward",
    hint="Write constants in full, and compute in the dtype of x.",
    after="test_gradient",
)
def test_gradient_float64(code: Student, draw: Draw) -> Cases:
    """In float64, the gradient has the precision of float64."""
    x = draw.uniform(201, low=-5, high=5, dtype=torch.float64)
    gradient = gradient_at(code, x, torch.ones_like(x))
    yield "the gradient", within(gradient, rtol=0, atol=PRECISION)


@promise(
    "GELUFunction.backward",
    points=2,
    hint="exp, cosh and sinh overflow long before |x| = 1e4; tanh does not.",
    after="test_uses_function",
)
def test_large_inputs(code: Student, draw: Draw) -> Cases:
    """The value is right and the gradient is finite for |x| up to 1e4."""
    x = torch.tensor([*LARGE, *(-x for x in LARGE)])
    yield "gelu(x) for large |x|", value_at(code, x)
    yield "the gradient for large |x|", gradient_at(code, x, torch.ones_like(x))


@promise(
    "GELUFunction.backward",
    points=8,
    hint="Compute in backward from the x in ctx.saved_tensors and from grad_output.",
    after="test_gradient",
)
def test_second_derivative(code: Student, draw: Draw) -> Cases:
    """The backward pass can itself be differentiated, with respect to x and to grad_output."""
    x = draw.uniform(5, 6, low=-5, high=5, dtype=torch.float64)
    g, incoming = (draw.normal(5, 6, dtype=torch.float64) for _ in range(2))
    again = laws.gradients_again(code.function("gelu"), x, g, incoming)
    for leaf, gradient in zip(("x, the second derivative,", "grad_output"), again, strict=True):
        what = f"the gradient of the gradient with respect to {leaf}"
        yield what, within(gradient, rtol=CLOSE_SECOND, atol=CLOSE_SECOND)


# --- gradient_error ------------------------------------------------------------------------------


@promise(
    "gradient_error",
    points=5,
    hint="The largest absolute difference of the two gradients, as one Python float.",
)
def test_gradient_error_value(code: Student, draw: Draw) -> Cases:
    """gradient_error is the largest absolute difference of the two gradients, as a float."""
    # The derivative of gelu is between the two slopes: all differences are negative for one, and positive
    # for the other.
    for slope in (-draw.number(0.5, 1), draw.number(1.5, 2)):
        report = code.run("error_of_line", draw.normal(3, 4, dtype=torch.float64), slope)
        yield "the result of gradient_error for a wrong gradient", entry(report, "error")


@promise(
    "gradient_error",
    hint="Copy x as it is: no .double(), no .float().",
    word="the sandbox says what is computed in which dtype",
)
def test_gradient_error_dtype(code: Student, draw: Draw) -> Cases:
    """gradient_error computes both gradients in the dtype of x."""
    for dtype in (torch.float32, torch.float64):
        report = code.run("error_of_line", draw.normal(5, dtype=dtype), 0.5)
        what = f"the list of dtypes of your gradients in gradient_error, for a {dtype} x,"
        yield what, entry(report, "dtypes")


@promise(
    "gradient_error",
    hint="An empty tensor has no maximum: return 0.0 where x.numel() == 0.",
    after="test_gradient_error_value",
)
def test_gradient_error_empty(code: Student, draw: Draw) -> Cases:
    """gradient_error is 0.0 for an empty x."""
    report = code.run("error_of_line", torch.zeros(2, 0, 3), 1.75)
    yield "gradient_error of an empty x", entry(report, "error")


@promise(
    "gradient_error",
    hint="Work on x.detach().clone().requires_grad_(), or torch.autograd.grad.",
    after="test_gradient_error_value",
)
def test_gradient_error_leaves_x(student: Student) -> None:
    """gradient_error changes neither x, its .grad and requires_grad, nor the global random state."""
    probe = student.probe("error_of_line")
    for x in laws.kinds_of(torch.randn(2).double()):
        laws.check_changes_nothing(student, probe, x, 0.5, call="gradient_error")


# --- check_gradients -----------------------------------------------------------------------------


@promise(
    "check_gradients",
    points=4,
    hint="gradcheck returns False instead of raising with raise_exception=False; return its answer.",
)
def test_check_gradients_verdict(code: Student, draw: Draw) -> Cases:
    """check_gradients is True for a right gradient, and False, not an exception, for a wrong one."""
    factors = [RIGHT_OR_NOT[i] for i in draw.permutation(len(RIGHT_OR_NOT)).tolist()]
    answers = code.run("verdicts", positive(draw, 2, 1), factors, EVERYWHERE)
    what = f"the list of verdicts on gradients that are {factors} times the right ones"
    yield what, exactly(answers)


@promise(
    "check_gradients",
    points=3,
    hint="gradcheck(gelu, x.detach().double()...), with all values of x and nothing loosened.",
    word="a verdict is yes or no",
)
def test_check_gradients_as_gradcheck(code: Student, draw: Draw) -> Cases:
    """check_gradients runs gradcheck in float64, at all values of x, with its default tolerances."""
    verdicts = code.probe("verdicts")
    what = "the list of verdicts on a right and on a wrong gradient at a float32 x"
    yield what, exactly(verdicts(positive(draw, 2).float(), [1.0, 1.5], EVERYWHERE))
    x = positive(draw, 6)
    what = "the list of verdicts on gradients that are off by 1 in 10000 and by 1 in 100"
    yield what, exactly(verdicts(x, BARELY_AND_CLEARLY, EVERYWHERE))
    what = "the list of verdicts on a gradient that is wrong only at values that x does not hold"
    yield what, exactly(verdicts(x, [1.5], ONLY_FAR))
    x[draw.size(0, 6)] = FAR
    what = "the list of verdicts on a gradient that is wrong at one element of x"
    yield what, exactly(verdicts(x, [1.5], ONLY_FAR))


@promise(
    "check_gradients",
    hint="x.double() is x itself if x is float64 already: detach and clone first.",
    after="test_check_gradients_verdict",
)
def test_check_gradients_leaves_x(student: Student) -> None:
    """check_gradients changes neither x, its .grad and requires_grad, nor the global random state."""
    probe = student.probe("verdict")
    for x in laws.kinds_of(torch.rand(2).double() + 0.5):
        laws.check_changes_nothing(student, probe, x, 1.0, EVERYWHERE, call="check_gradients")


# --- helpers of the tests ------------------------------------------------------------------------


def value_at(code: Student, x: Tensor) -> Any:
    """Return gelu(x), compared without gradients and dtype, which have tests of their own."""
    return any_dtype(any_gradients(code.function("gelu")(x)))


def gradient_at(code: Student, x: Tensor, grad_output: Tensor) -> Tensor:
    """Return the gradient of gelu at x, for this grad_output."""
    return laws.gradient_at(code.function("gelu"), x, grad_output, what="gelu(x)")


def positive(draw: Draw, *shape: int) -> Tensor:
    """Draw numbers at which the probe's cube is steep."""
    return draw.uniform(*shape, low=0.5, high=1.5, dtype=torch.float64)
