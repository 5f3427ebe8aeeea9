"""What GELUFunction, gelu and the two checks promise, sentence by sentence."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import (
    assert_close,
    assert_equal,
    assert_tensor,
    entry,
    gradgradcheck,
    laws,
)
from grader.judge.student import Student

K = math.sqrt(2 / math.pi)
A = 0.044715
# The tolerance of float32, where float64 is not the point.
RTOL, ATOL = 1.3e-6, 1e-5
# How far a constant that is rounded to three digits leads, which is for the tests of precision to
# tell; another formula, like the one with erf, leads farther.
ROUNDED, ROUNDED_GRADIENT, ROUNDED_OTHER = 1e-4, 4e-4, 1e-3
DTYPES = (torch.float32, torch.float64)

# --- the value -----------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("0.5 * x * (1 + torch.tanh(u)), with u = math.sqrt(2 / math.pi) * (x + ...).")
def test_forward(student: Student) -> None:
    """gelu(x) is 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    x = torch.cat([torch.linspace(-5, 5, 81), 2 * torch.randn(40)]).reshape(11, 11).double()
    for dtype in DTYPES[::-1]:
        # The formula: dtypes and precision have tests of their own.
        y, x = value_at(student, x.to(dtype)).double(), x.to(dtype).double()
        if not torch.allclose(y, value(x), rtol=0, atol=ROUNDED):
            assert_close(y, value(x), what="gelu(x)", rtol=RTOL, atol=ATOL)


@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("Write constants in full, and compute in the dtype of x.")
def test_forward_float64(student: Student) -> None:
    """gelu has the precision of its dtype, in float32 and in float64."""
    x = torch.linspace(-5, 5, 101)
    check_narrow(value_at(student, x), x, value, "gelu(x) in float32")
    x = between(torch.linspace(-5, 5, 101), 2 * torch.randn(100))
    y = value_at(student, x).double()
    laws.check_float64(y, value(x), what="gelu(x)")
    laws.check_smooth(lambda x: value_at(student, x).double(), derivative(x), x, what="gelu(x)")


@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("Python numbers take on the dtype of x; tensors have their own.")
def test_dtypes(student: Student) -> None:
    """The result has the dtype of x, in float32 and in float64."""
    laws.check_dtypes(student, "gelu", torch.randn(3, 4), what="gelu(x)")


@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("Elementwise operations keep any shape; you need no view or reshape.")
def test_shapes(student: Student) -> None:
    """The result and the gradient have the shape of x, also where x is 0-d or empty."""
    shapes = [(), (1,), (0,), (2, 0, 3), (7,), (3, 4), (2, 3, 2, 2)]
    laws.check_shapes(student, "gelu", shapes, gradients=True, what="gelu")


@pytest.mark.points(2)
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("exp, cosh and sinh overflow long before |x| = 1e4; tanh does not.")
def test_large_inputs(student: Student) -> None:
    """For |x| up to 1e4 the value is right and the gradient is finite."""
    sizes = [4.0, 6.0, 8.0, 11.0, 15.0, 25.0, 40.0, 100.0, 700.0, 2345.0, 1e4]
    for dtype in DTYPES:
        x = torch.tensor([*sizes, *(-size for size in sizes)], dtype=dtype)
        y, what = value_at(student, x, "gelu(x) for large |x|"), f"for large |x| ({dtype})"
        why = "exponentials overflow to inf, and inf / inf is NaN; torch.tanh is safe"
        laws.check_finite(y, what="gelu(x)", at=x, why=why)
        # From here on the formula is x or 0, with whatever constants.
        far = x.abs() >= 15
        assert_close(y.to(dtype)[far], torch.relu(x)[far], what=f"gelu(x) {what}")
        gradient = gradient_at(student, x, torch.ones_like(x))
        why = "cosh, sinh and exp overflow to inf, 0 * inf is NaN; 1 - torch.tanh(u)**2 is safe"
        laws.check_finite(gradient, what="the gradient", at=x, why=why)
        right = (x > 0).to(dtype)[far]
        assert_close(gradient[far], right, what=f"the gradient {what}")


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


@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction")
@pytest.mark.hint("@staticmethod above both def forward and def backward.")
def test_declaration(student: Student) -> None:
    """GELUFunction is a torch.autograd.Function with static methods forward and backward."""
    laws.check_declared(student, "gelu", "GELUFunction")


@pytest.mark.requires("test_forward")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Compute new tensors: neither a trailing underscore nor += on your arguments.")
def test_leaves_arguments(student: Student) -> None:
    """Neither pass changes x, and backward does not change grad_output."""
    for dtype in DTYPES:
        x, g = torch.randn(3, 4, dtype=dtype) + 2, torch.randn(3, 4, dtype=dtype) + 2
        gradient = laws.check_changes_nothing(student, "gelu", x, grad_output=g, allow=("random",))
        # A pass that does nothing changes nothing, and earns nothing.
        assert_tensor(gradient, shape=x.shape, what="the gradient")


@pytest.mark.points(3)
@pytest.mark.requires("test_uses_function")
@pytest.mark.place("GELUFunction.forward")
@pytest.mark.hint("ctx.save_for_backward(x) in forward, (x,) = ctx.saved_tensors in backward.")
def test_saved_tensor(student: Student) -> None:
    """If x is changed in place before the backward pass, autograd raises its own error."""
    for x in (torch.randn(4, 3).double(), torch.randn(3, 4).double().t()):
        laws.check_saved(student, "gelu", x, derivative)


# --- the gradient --------------------------------------------------------------------------------


@pytest.mark.points(10)
@pytest.mark.requires("test_uses_function", "test_forward")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Product rule: one term for x and one for tanh(u), which needs the chain rule.")
def test_gradient(student: Student) -> None:
    """The gradient is the derivative of the formula."""
    x = torch.cat([torch.linspace(-4, 4, 61), 1.5 * torch.randn(60)]).reshape(11, 11).double()
    for dtype in DTYPES[::-1]:
        x = x.to(dtype)
        gradient = gradient_at(student, x, torch.ones_like(x)).double()
        x, d = x.double(), derivative(x.double())
        if torch.allclose(gradient, d, rtol=0, atol=ROUNDED_GRADIENT):
            continue
        what = "the gradient of gelu(x).sum()"
        assert_close(gradient, d, what=what, rtol=RTOL, atol=ATOL)


@pytest.mark.points(24)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Multiply grad_output and the derivative, element by element.")
def test_grad_output(student: Student) -> None:
    """The derivative is multiplied by grad_output, element by element."""
    x = 1.5 * torch.randn(4, 5).double()
    gs = [torch.randn(4, 5).double(), torch.rand(4, 5).double() + 2, torch.zeros(4, 5).double()]
    d = derivative(x)
    gradients = [gradient_at(student, x, g).double() for g in gs]
    if not all(
        torch.allclose(y, g * d, rtol=0, atol=ROUNDED_OTHER)
        for y, g in zip(gradients, gs, strict=True)
    ):
        what = "the list of gradients for three different grad_output"
        assert_close(gradients, [g * d for g in gs], what=what)
    for layout, g in laws.layouts_of(gs[0]).items():
        what = f"the gradient for a grad_output {layout} in memory"
        y = assert_tensor(laws.shipped(student, "both_passes")("gelu", x, g), what=what)
        assert_close(y.double(), g * d, what=what, atol=ROUNDED_OTHER)


@pytest.mark.requires("test_gradient")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Write constants in full, and compute in the dtype of x.")
def test_gradient_float64(student: Student) -> None:
    """The gradient has the precision of its dtype, in float32 and in float64."""

    def by(factor: float) -> Callable[[Tensor], Tensor]:
        return lambda x: gradient_at(student, x, torch.full_like(x, factor))

    x = torch.linspace(-5, 5, 101)
    check_narrow(by(1)(x), x, derivative, "the gradient in float32")
    x = between(torch.linspace(-5, 5, 201), 2 * torch.randn(100))
    gradient = by(1)(x)
    told = "In float64 your gradient has only the precision of float32: compute in the dtype of x."
    assert not torch.equal(gradient, gradient.float().double()), told
    # Where the derivative crosses zero the tolerance is at its smallest. A grad_output of 3 lets a
    # rounded constant show there, and still forgives one that is rounded to float32.
    third = by(3)(x) / 3
    assert_close(third, derivative(x), what="the gradient in float64", atol=3e-8)
    laws.check_smooth(by(1), second_derivative(x), x, what="the gradient")


@pytest.mark.points(4)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Compute in backward from the x in ctx.saved_tensors and from grad_output.")
def test_second_derivative(student: Student) -> None:
    """The backward pass can itself be differentiated, with respect to x and to grad_output."""
    x = torch.cat([torch.linspace(-5, 5, 21), torch.randn(9)]).double().reshape(5, 6)
    laws.check_again_differentiable(
        lambda x: attached(student.function("gelu")(x), x),
        x,
        derivative,
        second_derivative,
        loose=ROUNDED_OTHER,
    )


@pytest.mark.requires("test_uses_function")
@pytest.mark.place("GELUFunction.backward")
@pytest.mark.hint("Try torch.autograd.gradgradcheck(gelu, (x,)) yourself, with a small float64 x.")
def test_gradgradcheck(student: Student) -> None:
    """torch.autograd.gradgradcheck of gelu passes for |x| up to 5."""
    # Every element costs a dozen calls; the test before this one looks at more of them.
    x = torch.cat([torch.tensor([5.0]), 2 * torch.rand(1) - 1]).double().requires_grad_()

    def gelu(x: Tensor) -> Tensor:
        return attached(student.function("gelu")(x), x)

    laws.differentiable_gradient(gelu(x).sum(), x)
    gradgradcheck(gelu, (x,), what="the second derivative of gelu")


# --- gradient_error and check_gradients ----------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("gradient_error")
@pytest.mark.hint("The largest absolute difference of the two gradients, as one Python float.")
def test_gradient_error_value(student: Student) -> None:
    """gradient_error is the largest absolute difference of the two gradients, as a float."""
    xs = [torch.randn(shape).double() for shape in [(6,), (3, 4), (2, 3, 2), ()]]
    # Both signs of the difference, and neither an extreme that a mean could meet.
    pairs = [(x, slope) for slope in (-0.5, 1.75, 0.4) for x in xs]
    right = [(slope - derivative(x)).abs().max().item() for x, slope in pairs]
    what = "what gradient_error says of wrong gradients"
    assert_close(
        [standing(student, "gradient_error", x, "line", slope) for x, slope in pairs],
        right,
        what=what,
    )
    x = torch.randn(3, 4)
    expected = (-0.5 - derivative(x.double())).abs().max().item()
    error = standing(student, "gradient_error", x, "line", -0.5)
    assert_close(error, expected, what=f"{what} in float32", rtol=RTOL, atol=ATOL)


@pytest.mark.place("gradient_error")
@pytest.mark.word("the sandbox says what is computed in which dtype")
@pytest.mark.hint("Copy x as it is: no .double(), no .float().")
def test_gradient_error_dtype(student: Student) -> None:
    """gradient_error computes both gradients in the dtype of x."""
    dtypes = []
    for dtype in DTYPES:
        x = torch.randn(5, dtype=dtype)
        dtypes.append(entry(student.run("standing", "gradient_error", x, "line", 0.5), "dtypes"))
    assert_equal(
        dtypes,
        [["float32"], ["float64"]],
        what="the list of dtypes of your gradients in gradient_error, for a float32 and a float64 x",
    )


@pytest.mark.requires("test_gradient_error_value")
@pytest.mark.place("gradient_error")
@pytest.mark.hint("An empty tensor has no maximum: return 0.0 where x.numel() == 0.")
def test_gradient_error_empty(student: Student) -> None:
    """gradient_error is 0.0 for an empty x."""
    for empty in (torch.zeros(0), torch.zeros(2, 0, 3).double()):
        error = standing(student, "gradient_error", empty, "line", 1.75)
        assert_close(error, 0.0, what="gradient_error of an empty x")


@pytest.mark.requires("test_gradient_error_value")
@pytest.mark.place("gradient_error")
@pytest.mark.hint("Work on x.detach().clone().requires_grad_(), or torch.autograd.grad.")
def test_gradient_error_leaves_x(student: Student) -> None:
    """gradient_error leaves the values, .grad and requires_grad of x as they were."""
    check_left_alone(student, "gradient_error")


@pytest.mark.points(4)
@pytest.mark.place("check_gradients")
@pytest.mark.hint(
    "gradcheck returns False instead of raising with raise_exception=False; return its answer."
)
def test_check_gradients_verdict(student: Student) -> None:
    """check_gradients is True for a right gradient, and False, not an exception, for a wrong one."""
    points = (
        (torch.rand(2, 1) + 0.5, [1.0, 1.0, 1.0, 1.5, -1.0, 0.0]),
        (torch.tensor(1.25), [1.0, 1.5]),
    )
    for x, factors in points:
        random.shuffle(factors)
        what = f"the verdicts of check_gradients on gradients that are too large by {factors}"
        right = [factor == 1 for factor in factors]
        assert_equal(verdicts(student, x.double(), factors), right, what=what)


@pytest.mark.requires("test_check_gradients_verdict")
@pytest.mark.place("check_gradients")
@pytest.mark.word("a verdict is yes or no")
@pytest.mark.hint("Leave eps, atol and rtol of gradcheck at their defaults.")
def test_check_gradients_tolerances(student: Student) -> None:
    """check_gradients uses gradcheck's default tolerances."""
    within, beyond = verdicts(student, torch.rand(2).double() + 1, [1.0001, 1.01])
    leave = "than gradcheck's defaults (atol=1e-5, rtol=1e-3). Leave them at the defaults."
    told = "check_gradients says {} about a gradient that is off by 1 in {}: its tolerances are {}"
    assert within is True, f"{told.format('False', 10000, 'stricter')} {leave}"
    assert beyond is False, f"{told.format('True', 100, 'looser')} {leave}"


@pytest.mark.place("check_gradients")
@pytest.mark.word("a verdict is yes or no")
@pytest.mark.hint("x.detach().double() first: finite differences need float64.")
def test_check_gradients_float64(student: Student) -> None:
    """check_gradients computes in float64, also for a float32 x."""
    what = "the verdict of check_gradients on a right and on a wrong gradient at a float32 x"
    answers = verdicts(student, torch.rand(2) + 0.5, [1.0, 1.5])
    assert_equal(answers, [True, False], what=what)


@pytest.mark.requires("test_check_gradients_verdict")
@pytest.mark.place("check_gradients")
@pytest.mark.word("a verdict is yes or no")
@pytest.mark.hint("Give gradcheck the values of x, all of them.")
def test_check_gradients_at_x(student: Student) -> None:
    """check_gradients looks at the values of x, all of them."""
    x = torch.rand(2, 2).double() + 0.5
    # The gradient is wrong above 10, and nowhere else.
    assert verdicts(student, x, [1.5], limit=10.0) == [True], (
        "check_gradients says False although the gradient is right at all values of x (and wrong "
        "only elsewhere): look at x, and nowhere else."
    )
    for row, column in [(0, 0), (1, 1), (0, 1)]:
        far = x.clone()
        far[row, column] = 12.0
        assert verdicts(student, far, [1.5], limit=10.0) == [False], (
            f"check_gradients says True although the gradient is wrong at x[{row}, {column}]: look "
            "at x itself, at all of its values, not at points of your own."
        )


@pytest.mark.requires("test_check_gradients_verdict")
@pytest.mark.place("check_gradients")
@pytest.mark.hint("x.double() is x itself if x is float64 already: detach and clone first.")
def test_check_gradients_leaves_x(student: Student) -> None:
    """check_gradients leaves the values, .grad and requires_grad of x as they were."""
    check_left_alone(student, "check_gradients")


@pytest.mark.requires("test_forward", "test_gradient_error_value", "test_check_gradients_verdict")
@pytest.mark.place("check_gradients")
@pytest.mark.hint("Neither seed nor draw random numbers: x is all that you need.")
def test_random_state(student: Student) -> None:
    """Nothing seeds the global random state or draws from it."""
    x, only = torch.randn(2).double(), ("random",)
    laws.check_changes_nothing(student, "gelu", x, grad_output=torch.randn_like(x), only=only)
    for name in ("gradient_error", "check_gradients"):
        laws.check_changes_nothing(student, name, x, only=only)


# --- the right answers -----------------------------------------------------------------------------


def inner(x: Tensor, k: float = K, a: float = A) -> Tensor:
    return k * (x + a * x**3)


def value(x: Tensor, k: float = K, a: float = A) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(inner(x, k, a)))


def derivative(x: Tensor, k: float = K, a: float = A) -> Tensor:
    t = torch.tanh(inner(x, k, a))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * k * (1 + 3 * a * x**2)


def second_derivative(x: Tensor, k: float = K, a: float = A) -> Tensor:
    t = torch.tanh(inner(x, k, a))
    du, ddu = k * (1 + 3 * a * x**2), 6 * k * a * x
    return (1 - t**2) * (du + 0.5 * x * (ddu - 2 * t * du**2))


def between(*parts: Tensor) -> Tensor:
    """These numbers in float64, moved a little: float32 holds none of them exactly."""
    x = torch.cat(parts).double()
    return x + 1e-3 * torch.rand(x.shape, dtype=x.dtype)


def check_narrow(y: Tensor, x: Tensor, f: Callable[..., Tensor], what: str) -> None:
    """A float32 result at x is that of the formula f, to float32's precision."""
    y, x = y.double(), x.double()
    assert_close(y, f(x), what=what, rtol=RTOL, atol=ATOL)


def value_at(student: Student, x: Tensor, what: str = "gelu(x)") -> Tensor:
    """The student's gelu of x: a tensor of the shape of x and of some real floating dtype."""
    return attached(student.function("gelu")(x), x, what).detach()


def attached(y: Any, x: Tensor, what: str = "gelu(x)") -> Tensor:
    """The result of gelu(x): of the shape of x, and in its graph if x requires a gradient."""
    result = assert_tensor(y, shape=x.shape, what=what)
    assert result.is_floating_point(), f"It has dtype {result.dtype}, expected {x.dtype}: {what}."
    assert result.requires_grad or not x.requires_grad, (
        "gelu(x) does not require a gradient although x does: return what GELUFunction.apply(x) "
        "returns, without detach or no_grad."
    )
    return result


def gradient_at(student: Student, x: Tensor, grad_output: Tensor) -> Tensor:
    return laws.gradient_at(student.function("gelu"), x, grad_output, what="gelu(x)")


def standing(student: Student, function: str, x: Tensor, kind: str, *setting: float) -> Any:
    """What a check says of a stand-in for gelu, of this kind, factor and limit."""
    return entry(student.run("standing", function, x, kind, *setting), "answer")


def verdicts(student: Student, x: Tensor, factors: list[float], limit: float = -1e9) -> list[Any]:
    """What check_gradients answered to each factor; an exception of gradcheck's is a mistake."""
    answers: list[Any] = []
    for factor in factors:
        probe = student.probe("standing")
        seen = laws.observe(student, probe, "check_gradients", x, "cube", factor, limit)
        seen = seen.checked() if factor == 1.0 else seen
        assert seen.error is None, (
            f"check_gradients raised {str(seen.error)[:60]} where the gradients disagree: it should "
            "return False. gradcheck does so with raise_exception=False."
        )
        answers.append(entry(seen.value, "answer"))
    return answers


def check_left_alone(student: Student, function: str) -> None:
    """A check leaves x as it was, whatever kind of tensor it is."""
    only, probe = ("1.values", "1.requires_grad", "1.grad"), student.probe("standing")
    for dtype in DTYPES:
        for x in laws.kinds_of((torch.rand(1) + 0.5).to(dtype)):
            arguments = (function, x, "cube")
            laws.check_changes_nothing(student, probe, *arguments, call=function, only=only)
