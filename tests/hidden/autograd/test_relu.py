"""What ReLUFunction, relu and differs_from_torch promise, sentence by sentence."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, laws
from grader.judge.outcomes import CheckFailed, StudentError
from grader.judge.student import Student

# Magnitudes, of both signs; -0.0 counts as 0.
SIZES = [0.0, 1e-30, 1e-12, 1e10, 1e30]


# --- the value -----------------------------------------------------------------------------------


@pytest.mark.points(16)
@pytest.mark.place("ReLUFunction.forward")
@pytest.mark.hint("clamp, maximum, where, or a product with a mask gives the larger of x and 0.")
def test_forward(student: Student) -> None:
    """relu(x) is x where x is positive, and 0 elsewhere."""
    x = points()
    assert_close(value_at(student, x), x.clamp(min=0), what="relu(x)")


@pytest.mark.points(3)
@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction")
@pytest.mark.hint("Elementwise operations with Python numbers keep any shape, strides and dtype.")
def test_any_x(student: Student) -> None:
    """x may be float32 or float64, of any shape, 0-d and empty included, and lie in memory in any way."""
    laws.check_dtypes(student, "relu", torch.randn(3, 4), what="relu(x)")
    x = torch.rand(4, 5, dtype=torch.float64)
    laws.check_float64(student.function("relu")(x), x, what="relu(x)")
    shapes = [(), (2, 0, 3), (7,), (2, 3, 2, 2)]
    laws.check_shapes(student, "relu", shapes, gradients=True, what="relu(x)")
    laws.check_layouts(student, "relu", points().reshape(2, 5, 4), what="relu(x)")


@pytest.mark.points(2)
@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction.forward")
@pytest.mark.hint("x.clamp(min=0) is a copy; x itself, x.clamp_(min=0) and x.relu_() are not.")
def test_shares_no_memory(student: Student) -> None:
    """The result shares no memory with x, also where nothing is negative."""
    laws.check_shares_no_memory(student, "relu", torch.rand(3, 4) + 1)


# --- through ReLUFunction ------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("relu")
@pytest.mark.hint("return ReLUFunction.apply(x)")
def test_uses_function(student: Student) -> None:
    """relu goes through ReLUFunction.apply, so that your backward is the one that runs."""
    laws.check_applied(student, "relu", "ReLUFunction")


@pytest.mark.requires("test_uses_function")
@pytest.mark.place("relu")
@pytest.mark.hint("Return what ReLUFunction.apply(x) returns, and compute nothing after it.")
def test_grad_fn(student: Student) -> None:
    """The result's grad_fn is the backward node of ReLUFunction."""
    laws.check_grad_fn(student, "relu", "ReLUFunction")


@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction")
@pytest.mark.hint("@staticmethod above both def forward and def backward.")
def test_declaration(student: Student) -> None:
    """ReLUFunction is a torch.autograd.Function with static methods forward and backward."""
    laws.check_declared(student, "relu", "ReLUFunction")


# --- the gradient --------------------------------------------------------------------------------


@pytest.mark.points(16)
@pytest.mark.place("ReLUFunction.backward")
@pytest.mark.hint("Pass grad_output on where the x that came in is at least 0.")
def test_gradient(student: Student) -> None:
    """The gradient is grad_output where x >= 0, and 0 where x < 0."""
    x, g = points(), torch.randn(5, 8)
    gradient = gradient_at(student, x, g)
    what = "the gradient of relu(x) for a random grad_output"
    assert_close(gradient, g * derivative(x), what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("ReLUFunction")
@pytest.mark.hint("Compare and choose: powers, roots and exponentials lose large or small numbers.")
def test_extremes(student: Student) -> None:
    """Value and gradient are right for |x| up to 1e30, for tiny x, and for -0.0."""
    sizes = torch.tensor(SIZES)
    x = torch.cat([sizes, -sizes])
    assert_close(value_at(student, x), x.clamp(min=0), what="relu(x) for tiny and huge |x|")
    gradient = gradient_at(student, x, torch.ones_like(x))
    assert_close(gradient, derivative(x), what="the gradient for tiny and huge |x|")


@pytest.mark.points(3)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("ReLUFunction.backward")
@pytest.mark.hint("Multiply by grad_output, or choose between it and 0, into a new tensor.")
def test_grad_output(student: Student) -> None:
    """grad_output may lie in memory in any way, expanded included, and be float64."""
    x = points().double()
    for layout, g in laws.layouts_of(torch.randn(5, 8, dtype=torch.float64)).items():
        gradient = laws.shipped(student, "both_passes")("relu", x, g)
        what = f"the gradient for a grad_output {layout} in memory"
        laws.check_float64(gradient, g * derivative(x), what=what)


@pytest.mark.points(4)
@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction")
@pytest.mark.hint(
    "x[x < 0] = 0, += and clamp_ change x itself: compute a new tensor, or take a clone() first."
)
def test_leaves_arguments(student: Student) -> None:
    """Neither pass changes x, grad_output or the global random state."""
    laws.check_changes_nothing(student, "relu", points(), grad_output=torch.randn(5, 8))


@pytest.mark.points(3)
@pytest.mark.requires("test_uses_function", "test_gradient")
@pytest.mark.place("ReLUFunction.backward")
@pytest.mark.hint("Compute from grad_output itself, without detach, .data, no_grad or NumPy.")
def test_again_differentiable(student: Student) -> None:
    """The backward pass can itself be differentiated, with respect to grad_output."""
    x = points().double()
    laws.check_again_differentiable(student.function("relu"), x, derivative, torch.zeros_like)


@pytest.mark.points(3)
@pytest.mark.requires("test_uses_function", "test_gradient")
@pytest.mark.place("ReLUFunction.forward")
@pytest.mark.hint("ctx.save_for_backward(x) in forward, (x,) = ctx.saved_tensors in backward.")
def test_changed_between(student: Student) -> None:
    """If x is changed in place before backward, autograd raises, or the gradient is that at the old x."""
    x = torch.randn(4, 3).double()
    # Opposite signs: each gradient tells which x it belongs to.
    laws.check_saved(student, "relu", x, derivative, changed=-x, itself=False)


# --- differs_from_torch --------------------------------------------------------------------------


@pytest.mark.points(14)
@pytest.mark.place("differs_from_torch")
@pytest.mark.hint(
    "Take both gradients with torch.autograd.grad, and compare them element by element."
)
def test_differs(student: Student) -> None:
    """differs_from_torch is True where the two gradients differ, and False elsewhere."""
    x = points()
    answer = student.function("differs_from_torch")(x)
    assert_equal(answer, difference(student, x), what="differs_from_torch(x)")


@pytest.mark.points(3)
@pytest.mark.requires("test_differs")
@pytest.mark.place("differs_from_torch")
@pytest.mark.hint("Work on x.detach().clone().requires_grad_(), and with torch.autograd.grad.")
def test_differs_leaves_x(student: Student) -> None:
    """x may be data, a leaf or a result; neither x nor any .grad changes, and an old .grad does not matter."""
    for x in laws.kinds_of(points()):
        answer = laws.check_changes_nothing(student, "differs_from_torch", x)
        what = "differs_from_torch(x) for an x that is data, a leaf, or a result"
        assert_equal(answer, difference(student, x.detach()), what=what)


# --- the right answers -----------------------------------------------------------------------------


def points() -> Tensor:
    """Numbers of both signs (5, 8), and zeros among them."""
    x = 10 * torch.randn(40)
    x[torch.randperm(40)[:6]] = torch.tensor([0, 0, 0, 0, 1e-10, -1e-10])
    return x.reshape(5, 8)


def derivative(x: Tensor) -> Tensor:
    return (x >= 0).to(x.dtype)


def difference(student: Student, x: Tensor) -> Tensor:
    """Where the gradient of the student's relu differs from that of torch's, which is 0 at 0.

    A wrong backward has tests of its own, and costs nothing here; where there is none, it is a right one.
    """
    return own_gradient(student, x) != (x > 0)


def own_gradient(student: Student, x: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_()
    try:
        y = assert_tensor(student.function("relu")(leaf), shape=x.shape)
        if y.requires_grad and y.is_floating_point():
            (gradient,) = torch.autograd.grad(y.sum(), leaf, allow_unused=True)
            return assert_tensor(gradient, shape=x.shape, dtype=x.dtype)
    except (StudentError, CheckFailed):
        pass
    return derivative(x)


# --- the student's ---------------------------------------------------------------------------------


def value_at(student: Student, x: Tensor) -> Tensor:
    """The student's relu of x; dtypes have a test of their own."""
    y = assert_tensor(student.function("relu")(x), shape=x.shape, what="relu(x)")
    return y.detach().to(x.dtype)


def gradient_at(student: Student, x: Tensor, grad_output: Tensor) -> Tensor:
    return laws.gradient_at(student.function("relu"), x, grad_output, what="relu(x)")
