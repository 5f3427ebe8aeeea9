"""What GELUFunction, gelu and the two checks promise, sentence by sentence."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

# A constant rounded to three digits is off by less, which is for the tests in float64 to see; another
# formula, like the one with erf, is off by more.
CLOSE, CLOSE_GRADIENT, CLOSE_SECOND = 1e-4, 4e-4, 1e-3
# Above which x the gradient is wrong that check_gradients is asked about, and an x that is FAR out.
EVERYWHERE, ONLY_FAR, FAR = -1e9, 10.0, 12.0


# --- the value -----------------------------------------------------------------------------------


@pytest.mark.points(10)
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("0.5 * x * (1 + torch.tanh(u)), with u = math.sqrt(2 / math.pi) * (x + ...).")
def test_forward(student: Student) -> None:
    """gelu(x) is 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    x = between(-5, 5, 121).reshape(11, 11).float()
    assert_close(value_at(student, x), value(x), what="gelu(x)", atol=CLOSE)


@pytest.mark.points(2)
@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("Write constants in full, as Python numbers, which take on the dtype of x.")
def test_dtypes(student: Student) -> None:
    """The result has the dtype of x, float32 or float64, and its precision."""
    laws.check_dtypes(student, "gelu", torch.randn(3, 4), what="gelu(x)")
    x = between(-5, 5, 201)
    laws.check_float64(student.function("gelu")(x), value(x), what="gelu(x)")


@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("Elementwise operations keep any shape; you need no view or reshape.")
def test_shapes(student: Student) -> None:
    """The result and the gradient have the shape of x, also where x is 0-d or empty."""
    shapes = [(), (2, 0, 3), (7,), (2, 3, 2, 2)]
    laws.check_shapes(student, "gelu", shapes, gradients=True, what="gelu")


# --- through GELUFunction ------------------------------------------------------------------------


@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction")
@pytest.mark.hint("@staticmethod above both def forward and def backward.")
def test_declaration(student: Student) -> None:
    """GELUFunction is a torch.autograd.Function with static methods forward and backward."""
    laws.check_declared(student, "gelu", "GELUFunction")


@pytest.mark.place("gelu")
@pytest.mark.hint("return GELUFunction.apply(x)")
def test_uses_function(student: Student) -> None:
    """gelu goes through GELUFunction.apply, so that your backward is the one that runs."""
    laws.check_applied(student, "gelu", "GELUFunction")


@pytest.mark.requires("test_uses_function")
@pytest.mark.place("gelu")
@pytest.mark.hint("Return what GELUFunction.apply(x) returns, and compute nothing after it.")
def test_grad_fn(student: Student) -> None:
    """The result's grad_fn is the backward node of GELUFunction."""
    laws.check_grad_fn(student, "gelu", "GELUFunction")


@pytest.mark.points(3)
@pytest.mark.requires("test_uses_function")
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("ctx.save_for_backward(x) in forward, (x,) = ctx.saved_tensors in backward.")
def test_saved_tensor(student: Student) -> None:
    """If x is changed in place before the backward pass, autograd raises its own error."""
    x = torch.randn(3, 4).double()
    laws.check_saved(student, "gelu", x, derivative)
    laws.check_saved(student, "gelu", x.t(), derivative)


@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Compute new tensors: neither a trailing underscore nor += on your arguments.")
def test_leaves_arguments(student: Student) -> None:
    """Neither pass changes x, grad_output or the global random state."""
    x, g = torch.randn(3, 4), torch.randn(3, 4)
    gradient = laws.check_changes_nothing(student, "gelu", x, grad_output=g)
    # A pass that does nothing changes nothing, and earns nothing.
    assert_tensor(gradient, shape=x.shape, what="the gradient")


# --- the gradient --------------------------------------------------------------------------------


@pytest.mark.points(10)
@pytest.mark.requires("test_uses_function", "test_forward")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Product rule: one term for x and one for tanh(u), which needs the chain rule.")
def test_gradient(student: Student) -> None:
    """The gradient is the derivative of the formula."""
    x = between(-4, 4, 121).reshape(11, 11).float()
    gradient = gradient_at(student, x, torch.ones_like(x))
    what = "the gradient of gelu(x).sum()"
    assert_close(gradient, derivative(x), what=what, atol=CLOSE_GRADIENT)


@pytest.mark.points(24)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Multiply grad_output and the derivative, element by element.")
def test_grad_output(student: Student) -> None:
    """The derivative is multiplied by grad_output, which may lie in memory in any way."""
    x, grad_output = 1.5 * torch.randn(4, 5).double(), torch.randn(4, 5).double()
    right = grad_output * derivative(x)
    what = "the gradient for a random grad_output"
    assert_close(gradient_at(student, x, grad_output), right, what=what, atol=CLOSE_GRADIENT)
    for layout, g in laws.layouts_of(grad_output).items():
        gradient = laws.shipped(student, "both_passes")("gelu", x, g)
        what = f"the gradient for a grad_output {layout} in memory"
        assert_close(gradient, g * derivative(x), what=what, atol=CLOSE_GRADIENT)


@pytest.mark.requires("test_gradient")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Write constants in full, and compute in the dtype of x.")
def test_gradient_float64(student: Student) -> None:
    """In float64, the gradient has the precision of float64."""
    x = between(-5, 5, 201)
    gradient = gradient_at(student, x, torch.ones_like(x))
    laws.check_float64(gradient, derivative(x), what="the gradient")


@pytest.mark.points(2)
@pytest.mark.requires("test_uses_function")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("exp, cosh and sinh overflow long before |x| = 1e4; tanh does not.")
def test_large_inputs(student: Student) -> None:
    """For |x| up to 1e4 the value is right and the gradient is finite."""
    sizes = torch.tensor([15.0, 25.0, 40.0, 100.0, 700.0, 2345.0, 1e4])
    x = torch.cat([sizes, -sizes])
    # So far out gelu is x or 0, and its derivative 1 or 0.
    assert_close(value_at(student, x), torch.relu(x).double(), what="gelu(x) for large |x|")
    gradient = gradient_at(student, x, torch.ones_like(x))
    assert_close(gradient, (x > 0).double(), what="the gradient for large |x|")


@pytest.mark.points(8)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Compute in backward from the x in ctx.saved_tensors and from grad_output.")
def test_second_derivative(student: Student) -> None:
    """The backward pass can itself be differentiated, with respect to x and to grad_output."""
    laws.check_again_differentiable(
        student.function("gelu"),
        between(-5, 5, 30).reshape(5, 6),
        derivative,
        second_derivative,
        loose=CLOSE_SECOND,
    )


# --- gradient_error ------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("gradient_error")
@pytest.mark.hint("The largest absolute difference of the two gradients, as one Python float.")
def test_gradient_error_value(student: Student) -> None:
    """gradient_error is the largest absolute difference of the two gradients, as a float."""
    # The derivative of gelu lies between the slopes: below one all differences are negative, above the
    # other all are positive.
    for slope in (-random.uniform(0.5, 1), random.uniform(1.5, 2)):
        x = torch.randn(3, 4).double()
        error = entry(student.run("error_of_line", x, slope), "error")
        right = (slope - derivative(x)).abs().max().item()
        assert_close(error, right, what="what gradient_error says of a wrong gradient")


@pytest.mark.place("gradient_error")
@pytest.mark.word("the sandbox says what is computed in which dtype")
@pytest.mark.hint("Copy x as it is: no .double(), no .float().")
def test_gradient_error_dtype(student: Student) -> None:
    """gradient_error computes both gradients in the dtype of x."""
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(5, dtype=dtype)
        dtypes = entry(student.run("error_of_line", x, 0.5), "dtypes")
        what = f"the list of dtypes of your gradients in gradient_error, for a {dtype} x,"
        assert_equal(dtypes, [str(dtype)], what=what)


@pytest.mark.requires("test_gradient_error_value")
@pytest.mark.place("gradient_error")
@pytest.mark.hint("An empty tensor has no maximum: return 0.0 where x.numel() == 0.")
def test_gradient_error_empty(student: Student) -> None:
    """gradient_error is 0.0 for an empty x."""
    error = entry(student.run("error_of_line", torch.zeros(2, 0, 3), 1.75), "error")
    assert_close(error, 0.0, what="gradient_error of an empty x")


@pytest.mark.requires("test_gradient_error_value")
@pytest.mark.place("gradient_error")
@pytest.mark.hint("Work on x.detach().clone().requires_grad_(), or torch.autograd.grad.")
def test_gradient_error_leaves_x(student: Student) -> None:
    """gradient_error leaves x, its .grad and requires_grad, and the global random state alone."""
    probe = student.probe("error_of_line")
    for x in laws.kinds_of(torch.randn(2).double()):
        laws.check_changes_nothing(student, probe, x, 0.5, call="gradient_error")


# --- check_gradients -----------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("check_gradients")
@pytest.mark.hint(
    "gradcheck returns False instead of raising with raise_exception=False; return its answer."
)
def test_check_gradients_verdict(student: Student) -> None:
    """check_gradients is True for a right gradient, and False, not an exception, for a wrong one."""
    factors = [1.0, 1.0, 1.0, 1.5, -1.0, 0.0]
    random.shuffle(factors)
    answers = student.run("verdicts", torch.rand(2, 1).double() + 0.5, factors, EVERYWHERE)
    what = f"the list of verdicts on gradients that are {factors} times the right ones"
    assert_equal(answers, [factor == 1 for factor in factors], what=what)


@pytest.mark.points(3)
@pytest.mark.place("check_gradients")
@pytest.mark.word("a verdict is yes or no")
@pytest.mark.hint(
    "gradcheck(gelu, x.detach().double()...), with all values of x and nothing loosened."
)
def test_check_gradients_as_gradcheck(student: Student) -> None:
    """check_gradients asks gradcheck in float64, at all values of x, with its default tolerances."""
    answers = student.run("verdicts", torch.rand(2) + 0.5, [1.0, 1.5], EVERYWHERE)
    what = "the list of verdicts on a right and on a wrong gradient at a float32 x"
    assert_equal(answers, [True, False], what=what)
    x = torch.rand(6).double() + 0.5
    answers = student.run("verdicts", x, [1.0001, 1.01], EVERYWHERE)
    what = "the list of verdicts on gradients that are off by 1 in 10000 and by 1 in 100"
    assert_equal(answers, [True, False], what=what)
    what = "the list of verdicts on a gradient that is wrong only at values that x does not hold"
    assert_equal(student.run("verdicts", x, [1.5], ONLY_FAR), [True], what=what)
    x[random.randrange(6)] = FAR
    what = "the list of verdicts on a gradient that is wrong at one element of x"
    assert_equal(student.run("verdicts", x, [1.5], ONLY_FAR), [False], what=what)


@pytest.mark.requires("test_check_gradients_verdict")
@pytest.mark.place("check_gradients")
@pytest.mark.hint("x.double() is x itself if x is float64 already: detach and clone first.")
def test_check_gradients_leaves_x(student: Student) -> None:
    """check_gradients leaves x, its .grad and requires_grad, and the global random state alone."""
    probe = student.probe("verdict")
    for x in laws.kinds_of(torch.rand(2).double() + 0.5):
        laws.check_changes_nothing(student, probe, x, 1.0, EVERYWHERE, call="check_gradients")


# --- the right answers ---------------------------------------------------------------------------


def value(x: Tensor) -> Tensor:
    """PyTorch's own GELU at x, in float64."""
    return F.gelu(x.double(), approximate="tanh")


def derivative(x: Tensor) -> Tensor:
    """Its first derivative."""
    return first_and_second(x)[0]


def second_derivative(x: Tensor) -> Tensor:
    return first_and_second(x)[1]


def first_and_second(x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.detach().double().requires_grad_()
    (first,) = torch.autograd.grad(value(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return first.detach(), second


def between(low: float, high: float, count: int) -> Tensor:
    """So many float64 numbers from low to high, none of which float32 holds exactly."""
    x = torch.linspace(low, high, count, dtype=torch.float64)
    return x + 1e-3 * torch.rand(x.shape, dtype=x.dtype)


# --- the student's ---------------------------------------------------------------------------------


def value_at(student: Student, x: Tensor) -> Tensor:
    """The student's gelu of x, in float64: which dtype it had is another test."""
    y = assert_tensor(student.function("gelu")(x), shape=x.shape, what="gelu(x)")
    return y.detach().double()


def gradient_at(student: Student, x: Tensor, grad_output: Tensor) -> Tensor:
    """The gradient at x for this grad_output, in float64."""
    gelu = student.function("gelu")
    return laws.gradient_at(gelu, x, grad_output, what="gelu(x)").double()
