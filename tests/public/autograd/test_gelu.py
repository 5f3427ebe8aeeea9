"""Small examples for GELUFunction and its two checks."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, assert_tensor, laws, promise
from grader.judge.student import Student

X = [-3.0, -1.0, 0.0, 1.0, 2.0]


@promise(
    "GELUFunction.forward",
    hint="0.5 * x * (1 + torch.tanh(u)), with u = math.sqrt(2 / math.pi) * (x + ...).",
)
def test_example_values(student: Student) -> None:
    """gelu of -3, -1, 0, 1, 2 is -0.0036374, -0.1588080, 0, 0.8411920, 1.9545977."""
    y = student.function("gelu")(torch.tensor(X, dtype=torch.float64))
    assert_close(
        y,
        numbers(-0.003637392082, -0.158808009392, 0.0, 0.841191990608, 1.954597694088),
        what="gelu(x)",
    )


@promise(
    "GELUFunction.backward",
    points=4,
    hint="Product rule: one term for x and one for tanh(u), which needs the chain rule.",
)
def test_example_gradients(student: Student) -> None:
    """Its derivative there is -0.0115842, -0.0829641, 0.5, 1.0829641, 1.0860993."""
    slopes = numbers(-0.011584166631, -0.082964083846, 0.5, 1.082964083846, 1.086099256624)
    grad_output = numbers(1.0, 1.0, 1.0, 2.0, -10.0)
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    y = assert_tensor(student.function("gelu")(x), shape=x.shape, dtype=x.dtype, what="gelu(x)")
    assert y.requires_grad, (
        "gelu(x) does not require a gradient although x does: return what GELUFunction.apply(x) "
        "returns, without detach or no_grad."
    )
    total = (y * grad_output).sum()
    (gradient,) = torch.autograd.grad(total, x, allow_unused=True)
    assert_close(
        gradient,
        slopes * grad_output,
        what="the gradient at x for the grad_output [1, 1, 1, 2, -10]",
    )


@promise(
    "GELUFunction",
    points=2,
    hint="Save x with ctx.save_for_backward, and use only tensor operations on it in backward.",
    after="test_example_gradients",
)
def test_example_saved(student: Student) -> None:
    """x itself is saved, backward can be differentiated, and x may be 0-d or empty."""
    laws.check_declared(student, "gelu", "GELUFunction")
    x = torch.randn(3, 2, dtype=torch.float64)
    laws.check_saved(student, "gelu", x)
    laws.check_again_differentiable(student.function("gelu"), x, derivative, second_derivative)
    laws.check_shapes(student, "gelu", [(), (2, 0, 3)], gradients=True, what="gelu")


@promise(
    "gradient_error",
    hint="Take both gradients at a copy of x; the largest absolute difference is one number.",
    after="test_example_gradients",
)
def test_example_gradient_error(student: Student) -> None:
    """gradient_error is almost 0 for a right gradient, and 1.0860993 for one that is twice as large."""
    x = torch.linspace(-4, 4, 9)
    error = student.function("gradient_error")(x)
    assert_close(error, 0.0, what="gradient_error(x) in float32", atol=1e-5)
    error = student.function("gradient_error")(x.double())
    assert_close(error, 0.0, what="gradient_error(x) in float64")
    # Twice a derivative is off by that derivative, and this is the largest of the five.
    assert_close(
        student.run("doubled", "gradient_error", torch.tensor(X, dtype=torch.float64)),
        1.086099256624,
        what="gradient_error(x) where backward gives twice the gradient",
    )
    assert_close(
        student.run("doubled", "gradient_error", numbers(-3.0, -1.0)),
        0.082964083846,
        what="gradient_error([-3, -1]) where backward gives twice the gradient",
    )
    error = student.function("gradient_error")(torch.empty(0))
    assert_close(error, 0.0, what="gradient_error(x) of an empty x")
    laws.check_changes_nothing(student, "gradient_error", numbers(*X))


@promise(
    "check_gradients",
    hint="Call gradcheck at a float64 copy of x, and let it return False instead of raising.",
    after="test_example_gradients",
)
def test_example_check_gradients(student: Student) -> None:
    """check_gradients returns True for a right gradient, and False for one that is twice as large."""
    answer = student.function("check_gradients")(torch.tensor(X))
    assert_equal(answer, True, what="check_gradients(x)")
    assert_equal(
        student.run("doubled", "check_gradients", torch.tensor(X)),
        False,
        what="check_gradients(x) where backward gives twice the gradient",
    )
    laws.check_changes_nothing(student, "check_gradients", numbers(*X))


def derivative(x: torch.Tensor) -> torch.Tensor:
    """The derivative of PyTorch's own GELU."""
    x = x.detach().requires_grad_()
    total = torch.nn.functional.gelu(x, approximate="tanh").sum()
    return torch.autograd.grad(total, x)[0]


def second_derivative(x: torch.Tensor) -> torch.Tensor:
    """The derivative of the derivative, by finite differences."""
    return (derivative(x + 1e-5) - derivative(x - 1e-5)) / 2e-5


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)
