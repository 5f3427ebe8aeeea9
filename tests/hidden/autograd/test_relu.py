"""What ReLUFunction, relu and differs_from_torch promise, sentence by sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, gradgradcheck, laws
from grader.judge.outcomes import CheckFailed, StudentError
from grader.judge.student import Student

DTYPES = (torch.float64, torch.float32)
SHAPES = [(), (1,), (0,), (2, 0, 3), (7,), (3, 4), (2, 3, 2, 2)]
HUGE = [1e3, 1e10, 1e20, 1e30]

# --- the value -----------------------------------------------------------------------------------


@pytest.mark.points(16)
@pytest.mark.place("ReLUFunction.forward")
@pytest.mark.hint("clamp, maximum, where, or a product with a mask gives the larger of x and 0.")
def test_forward(student: Student) -> None:
    """relu(x) is x where x is positive, and 0 elsewhere."""
    for dtype in DTYPES:
        x = points(dtype)
        assert_close(value_at(student, x), x.clamp(min=0), what="relu(x)")


@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction.forward")
@pytest.mark.hint("Python numbers take on the dtype of x; tensors have their own.")
def test_dtypes(student: Student) -> None:
    """The result has the dtype of x, in float32 and in float64."""
    laws.check_dtypes(student, "relu", torch.randn(3, 4), what="relu(x)")
    x = torch.rand(4, 5, dtype=torch.float64)
    laws.check_float64(student.function("relu")(x), x, what="relu(x)")


@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction")
@pytest.mark.hint("Elementwise operations keep any shape; you need no view or reshape.")
def test_shapes(student: Student) -> None:
    """The result and the gradient have the shape of x, also where x is 0-d or empty."""
    laws.check_shapes(student, "relu", SHAPES, gradients=True, what="relu(x)")


@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction")
@pytest.mark.hint("Elementwise operations take any strides; view(-1) and as_strided do not.")
def test_layouts(student: Student) -> None:
    """x may be transposed, sliced or expanded."""
    laws.check_layouts(student, "relu", points().reshape(2, 5, 4), what="relu(x)")


@pytest.mark.points(2)
@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction.forward")
@pytest.mark.hint("x.clamp(min=0) is a copy; x itself, x.clamp_(min=0) and x.relu_() are not.")
def test_shares_no_memory(student: Student) -> None:
    """The result shares no memory with x, also where nothing is negative."""
    where = "Is x itself returned where nothing is negative?"
    for x in (points(), torch.rand(3, 4) + 1, (torch.rand(4, 3) + 1).double().t(), torch.zeros(())):
        for kind in (x, x.detach().requires_grad_()):
            laws.check_shares_no_memory(student, "relu", kind, told=where)


@pytest.mark.points(2)
@pytest.mark.requires("test_forward")
@pytest.mark.place("ReLUFunction.forward")
@pytest.mark.hint(
    "Compute a new tensor: clamp_, relu_, +=, x[x < 0] = 0 and out=x change x itself."
)
def test_leaves_x(student: Student) -> None:
    """x stays as it is."""
    for dtype in DTYPES:
        for x in laws.kinds_of(points(dtype)):
            laws.check_changes_nothing(student, "relu", x, allow=("random",))


# --- the Function --------------------------------------------------------------------------------


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
    for dtype in DTYPES:
        x, g = points(dtype), torch.randn(5, 8, dtype=dtype)
        gradient = laws.gradient_at(relu(student), x, g, what="relu(x)")
        assert_close(
            gradient,
            g * derivative(x),
            what="the gradient of relu(x) for a random grad_output",
        )


@pytest.mark.points(2)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("ReLUFunction.backward")
@pytest.mark.hint(
    "grad_output * mask is a new tensor; to assign by index, take grad_output.clone() first."
)
def test_leaves_grad_output(student: Student) -> None:
    """Backward leaves grad_output as it is, and neither pass draws random numbers or seeds."""
    for dtype in DTYPES:
        x, g = points(dtype), torch.randn(5, 8, dtype=dtype) + 2
        laws.check_changes_nothing(student, "relu", x, grad_output=g)


@pytest.mark.points(3)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("ReLUFunction.backward")
@pytest.mark.hint("Multiply by grad_output, or choose between it and 0, into a new tensor.")
def test_grad_output(student: Student) -> None:
    """grad_output may be any finite numbers, in any layout, expanded ones included."""
    x, both = points().detach(), laws.shipped(student, "both_passes")
    for layout, g in laws.layouts_of(torch.randn(5, 8, dtype=x.dtype)).items():
        what = f"the gradient for a grad_output {layout} in memory"
        laws.check_float64(both("relu", x, g), g * derivative(x), what=what)
    for number in (0.0, 1.0, -1e30, 1e-30):
        g = torch.tensor(number, dtype=x.dtype).expand(x.shape)
        seen = laws.observe(student, both, "relu", x, g).checked()
        what = f"the gradient for an expanded grad_output of {number:g}, over the largest"
        gradient = assert_tensor(seen.value, shape=x.shape, dtype=x.dtype, what="the gradient")
        assert_close(gradient / (abs(number) or 1), g.sign() * derivative(x), what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_gradient")
@pytest.mark.place("ReLUFunction")
@pytest.mark.hint("Compare and choose: powers, roots and exponentials lose large or small numbers.")
def test_extremes(student: Student) -> None:
    """Value and gradient are right for |x| up to 1e30, for tiny x, and for -0.0."""
    for dtype in DTYPES:
        for sizes in (HUGE, [1e-6, 1e-12, 1e-20, 1e-30]):
            x = torch.tensor([*sizes, *(-size for size in sizes)], dtype=dtype)
            y, what = value_at(student, x), f"for |x| from {sizes[0]:g} to {sizes[-1]:g} ({dtype})"
            laws.check_finite(y, what=f"relu(x) {what}", at=x, why="a square or a power overflows")
            assert_close(y, x.clamp(min=0), what=f"relu(x) {what}")
            gradient = laws.gradient_at(relu(student), x, torch.ones_like(x), what="relu(x)")
            assert_close(gradient, derivative(x), what=f"the gradient {what}")
        x = torch.tensor([-0.0, -1.0], dtype=dtype)
        gradient = laws.gradient_at(relu(student), x, torch.ones_like(x), what="relu(x)")
        assert_close(gradient, derivative(x), what="the gradient at [-0.0, -1.0] (-0.0 is a zero)")


@pytest.mark.points(3)
@pytest.mark.requires("test_uses_function", "test_gradient")
@pytest.mark.place("ReLUFunction.backward")
@pytest.mark.hint("Compute from grad_output itself, without detach, .data, no_grad or NumPy.")
def test_again_differentiable(student: Student) -> None:
    """The backward pass can itself be differentiated, with respect to grad_output."""
    x = torch.cat([torch.rand(9) + 0.1, -torch.rand(9) - 0.1]).double().reshape(3, 6)
    laws.check_again_differentiable(relu(student), x, derivative, torch.zeros_like)
    few = torch.tensor([1.5, -0.75], dtype=torch.float64, requires_grad=True)
    gradgradcheck(relu(student), (few,), what="the second derivative of relu")


@pytest.mark.points(3)
@pytest.mark.requires("test_uses_function", "test_gradient")
@pytest.mark.place("ReLUFunction.forward")
@pytest.mark.hint("ctx.save_for_backward(x) in forward, (x,) = ctx.saved_tensors in backward.")
def test_changed_between(student: Student) -> None:
    """If x is changed in place before backward, autograd raises, or the gradient is that at the old x."""
    for x in (torch.randn(4, 3).double(), torch.randn(3, 4).double().t()):
        # Opposite signs: each gradient tells which x it belongs to.
        laws.check_saved(student, "relu", x, derivative, changed=-x, itself=False)


# --- differs_from_torch --------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("differs_from_torch")
@pytest.mark.hint(
    "Take both gradients with torch.autograd.grad, and compare them element by element."
)
def test_differs(student: Student) -> None:
    """differs_from_torch is True where the two gradients differ, and False elsewhere."""
    for dtype in DTYPES:
        x = points(dtype)
        assert_differs(student, student.function("differs_from_torch")(x), x)


@pytest.mark.points(2)
@pytest.mark.requires("test_differs")
@pytest.mark.place("differs_from_torch")
@pytest.mark.hint("Return what the comparison of both gradients gives, element by element.")
def test_differs_shapes(student: Student) -> None:
    """The result has the shape of x, also where x is 0-d or empty, whatever the strides of x."""
    differs = student.function("differs_from_torch")
    for shape in SHAPES:
        x = torch.randn(shape).round()
        assert_differs(student, differs(x), x, what=f"for x of shape {shape}")
    for layout, x in laws.layouts_of(points().reshape(2, 5, 4)).items():
        assert_differs(student, differs(x), x, what=f"for x {layout} in memory")
    x = torch.tensor([-1e30, -1e-30, 0.0, 1e-30, 1e30])
    assert_differs(student, differs(x), x, what="for tiny and huge x")


@pytest.mark.points(3)
@pytest.mark.requires("test_differs")
@pytest.mark.place("differs_from_torch")
@pytest.mark.hint("Work on x.detach().clone().requires_grad_(), and with torch.autograd.grad.")
def test_differs_leaves_x(student: Student) -> None:
    """x may be data, a leaf or a result; neither x nor any .grad changes, and an old .grad does not matter."""
    for dtype in DTYPES:
        for x in laws.kinds_of(points(dtype)):
            answer = laws.check_changes_nothing(student, "differs_from_torch", x)
            what = "for an x that is data, a leaf, or a result"
            assert_differs(student, answer, x.detach(), what=what)


# --- the right answers -----------------------------------------------------------------------------


def points(dtype: torch.dtype = torch.float64) -> Tensor:
    """Numbers of both signs (5, 8), and zeros among them."""
    x = 4 * torch.randn(5, 8, dtype=dtype)
    places = torch.randperm(x.numel())[:6]
    x.view(-1)[places] = torch.tensor([0.0, 0.0, 0.0, 0.0, 9.5, -9.5], dtype=dtype)
    return x


def relu(student: Student) -> Callable[[Tensor], Tensor]:
    """The student's relu; what it gives for an x that requires a gradient is in the graph."""

    def attached(x: Tensor) -> Tensor:
        y = assert_tensor(student.function("relu")(x), shape=x.shape, what="relu(x)")
        laws.check_attached(y, "relu(x)")
        return y

    return attached


def value_at(student: Student, x: Tensor) -> Tensor:
    """The student's relu of x; dtypes have a test of their own."""
    y = assert_tensor(student.function("relu")(x), shape=x.shape, what="relu(x)")
    return y.detach().to(x.dtype)


def assert_differs(
    student: Student,
    answer: object,
    x: Tensor,
    what: str = "",
) -> None:
    """The answer is True where the gradients differ: at 0, or where a wrong backward makes them differ.

    That backward has tests of its own, and costs nothing here.
    """
    if laws.same(answer, own_gradient(student, x) != (x > 0)):
        return
    assert_equal(answer, x == 0, what=f"differs_from_torch(x) {what}".strip())


def own_gradient(student: Student, x: Tensor) -> Tensor:
    """The gradient of the student's relu(x).sum(), or the right one where there is none."""
    leaf = x.detach().clone().requires_grad_()
    try:
        y = student.function("relu")(leaf)
        if isinstance(y, Tensor) and y.is_floating_point() and y.requires_grad:
            (gradient,) = torch.autograd.grad(y.sum(), leaf, allow_unused=True)
            if isinstance(gradient, Tensor) and gradient.shape == x.shape:
                return gradient
    except (StudentError, CheckFailed):
        pass
    return derivative(x)


def derivative(x: Tensor) -> Tensor:
    return (x >= 0).to(x.dtype)
