"""Tests of ReLUFunction, relu and differs_from_torch."""

from __future__ import annotations

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, any_dtype, any_gradients, laws, promise
from grader.judge.student import Student

SHAPES = [(), (2, 0, 3), (7,), (2, 3, 2, 2)]
# Magnitudes, of both signs; -0.0 counts as 0.
SIZES = [0.0, 1e-30, 1e-12, 1e10, 1e30]


# --- the value -----------------------------------------------------------------------------------


@promise(
    "ReLUFunction.forward",
    points=16,
    hint="clamp, maximum, where, or a product with a mask gives the larger of x and 0.",
)
def test_forward(code: Student, draw: Draw) -> Cases:
    """relu(x) is x where x is positive, and 0 elsewhere."""
    yield "relu(x)", any_dtype(any_gradients(code.function("relu")(points(draw))))


@promise(
    "ReLUFunction",
    points=3,
    hint="Elementwise operations with Python numbers keep any shape, strides and dtype.",
    after="test_forward",
)
def test_any_x(code: Student, draw: Draw) -> Cases:
    """x may be float32 or float64, of any shape, also 0-d or empty, and with any strides."""
    laws.check_dtypes(code, "relu", draw.normal(3, 4), what="relu(x)")
    x = draw.uniform(4, 5, dtype=torch.float64)
    yield "relu(x)", any_gradients(code.function("relu")(x))
    laws.check_shapes(code, "relu", SHAPES, gradients=True, what="relu(x)")
    laws.check_layouts(code, "relu", points(draw).reshape(2, 5, 4), what="relu(x)")


@promise(
    "ReLUFunction.forward",
    points=2,
    hint="x.clamp(min=0) is a copy; x itself, x.clamp_(min=0) and x.relu_() are not.",
    after="test_forward",
)
def test_shares_no_memory(student: Student) -> None:
    """The result shares no memory with x, even if nothing is negative."""
    laws.check_shares_no_memory(student, "relu", torch.rand(3, 4) + 1)


# --- through ReLUFunction ------------------------------------------------------------------------


@promise("relu", points=3, hint="return ReLUFunction.apply(x)")
def test_uses_function(student: Student) -> None:
    """relu goes through ReLUFunction.apply, so that your backward is the one that runs."""
    laws.check_applied(student, "relu", "ReLUFunction")


@promise(
    "relu",
    hint="Return the result of ReLUFunction.apply(x), and compute nothing after it.",
    after="test_uses_function",
)
def test_grad_fn(student: Student) -> None:
    """The result's grad_fn is the backward node of ReLUFunction."""
    laws.check_grad_fn(student, "relu", "ReLUFunction")


@promise(
    "ReLUFunction",
    hint="@staticmethod above both def forward and def backward.",
    after="test_forward",
)
def test_declaration(student: Student) -> None:
    """ReLUFunction is a torch.autograd.Function with static methods forward and backward."""
    laws.check_declared(student, "relu", "ReLUFunction")


# --- the gradient --------------------------------------------------------------------------------


@promise(
    "ReLUFunction.backward",
    points=16,
    hint="Pass grad_output on where the x that came in is at least 0.",
)
def test_gradient(code: Student, draw: Draw) -> Cases:
    """The gradient is grad_output where x >= 0, and 0 where x < 0."""
    gradient = gradient_at(code, points(draw), draw.normal(5, 8))
    yield "the gradient of relu(x) for a random grad_output", gradient


@promise(
    "ReLUFunction",
    points=2,
    hint="Compare and choose: powers, roots and exponentials lose large or small numbers.",
    after="test_gradient",
)
def test_extremes(code: Student, draw: Draw) -> Cases:
    """Value and gradient are right for |x| up to 1e30, for tiny x, and for -0.0."""
    sizes = torch.tensor(SIZES)
    x = torch.cat([sizes, -sizes])
    value = code.function("relu")(x)
    yield "relu(x) for tiny and huge |x|", any_dtype(any_gradients(value))
    yield "the gradient for tiny and huge |x|", gradient_at(code, x, torch.ones_like(x))


@promise(
    "ReLUFunction.backward",
    points=3,
    hint="Multiply by grad_output, or choose between it and 0, into a new tensor.",
    after="test_gradient",
)
def test_grad_output(code: Student, draw: Draw) -> Cases:
    """grad_output may have any strides, be expanded, and be float64."""
    x, gradient = points(draw).double(), laws.shipped(code, "both_passes")
    for layout, g in laws.layouts_of(draw.normal(5, 8, dtype=torch.float64)).items():
        yield f"the gradient for a grad_output {layout} in memory", gradient("relu", x, g)


@promise(
    "ReLUFunction",
    points=4,
    hint="x[x < 0] = 0, += and clamp_ change x itself: compute a new tensor, or take a clone() first.",
    after="test_forward",
)
def test_leaves_arguments(student: Student) -> None:
    """Neither pass changes x, grad_output or the global random state."""
    x, g = torch.randn(5, 8), torch.randn(5, 8)
    laws.check_changes_nothing(student, "relu", x, grad_output=g)


@promise(
    "ReLUFunction.backward",
    points=3,
    hint="Compute from grad_output itself, without detach, .data, no_grad or NumPy.",
    after=("test_uses_function", "test_gradient"),
)
def test_again_differentiable(code: Student, draw: Draw) -> Cases:
    """The backward pass can itself be differentiated, with respect to grad_output."""
    x, g, incoming = points(draw), draw.normal(5, 8), draw.normal(5, 8)
    _, again = laws.gradients_again(code.function("relu"), x, g, incoming)
    yield "the gradient of the gradient with respect to grad_output", again


@promise(
    "ReLUFunction.forward",
    points=3,
    hint="ctx.save_for_backward(x) in forward, (x,) = ctx.saved_tensors in backward.",
    after=("test_uses_function", "test_gradient"),
)
def test_changed_between(student: Student) -> None:
    """If x is changed in place before backward, autograd raises, or the gradient is that at the old x."""
    x = torch.randn(4, 3).double()
    # The new x has the opposite signs, so that a gradient shows which x it belongs to.
    laws.check_saved(student, "relu", x, changed=-x, itself=False)


# --- differs_from_torch --------------------------------------------------------------------------


@promise(
    "differs_from_torch",
    points=14,
    hint="Take both gradients with torch.autograd.grad, and compare them element by element.",
)
def test_differs(code: Student, draw: Draw) -> Cases:
    """differs_from_torch is True where the two gradients differ, and False elsewhere."""
    yield "differs_from_torch(x)", code.run("differs", points(draw))


@promise(
    "differs_from_torch",
    points=3,
    hint="Work on x.detach().clone().requires_grad_(), and with torch.autograd.grad.",
    after="test_differs",
)
def test_differs_leaves_x(code: Student, draw: Draw) -> Cases:
    """x may be data, a leaf or a result; neither x nor any .grad changes, and an old .grad does not matter."""
    differs = code.probe("differs")
    for x in laws.kinds_of(points(draw)):
        answer = laws.check_changes_nothing(code, differs, x, call="differs_from_torch")
        yield "differs_from_torch(x) for an x that is data, a leaf, or a result", answer


# --- helpers of the tests ------------------------------------------------------------------------


def points(draw: Draw) -> Tensor:
    """Draw numbers of both signs, (5, 8), some of which are 0 or almost 0."""
    x = draw.normal(40, scale=10)
    x[draw.permutation(40)[:6]] = torch.tensor([0, 0, 0, 0, 1e-10, -1e-10])
    return x.reshape(5, 8)


def gradient_at(code: Student, x: Tensor, grad_output: Tensor) -> Tensor:
    """Return the gradient of relu at x, for this grad_output."""
    return laws.gradient_at(code.function("relu"), x, grad_output, what="relu(x)")
