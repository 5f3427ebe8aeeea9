"""Small examples for ReLUFunction and differs_from_torch."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, assert_tensor, laws, promise
from grader.judge.student import Student

X = [[-3.0, -0.5, 0.0], [0.25, 2.0, -1.0]]


@promise(
    "ReLUFunction.forward",
    hint="clamp, maximum, where, or a product with a mask gives the larger of x and 0.",
)
def test_example_values(student: Student) -> None:
    """relu of [[-3, -0.5, 0], [0.25, 2, -1]] is [[0, 0, 0], [0.25, 2, 0]]."""
    x = numbers(X)
    assert_close(
        student.function("relu")(x), numbers([[0.0, 0.0, 0.0], [0.25, 2.0, 0.0]]), what="relu(x)"
    )


@promise(
    "ReLUFunction.backward",
    hint="A mask of x counts as 1 and 0 in a product with grad_output.",
    after="test_example_values",
)
def test_example_gradients(student: Student) -> None:
    """For the grad_output [[1, 2, 3], [4, 5, 6]] its gradient is [[0, 0, 3], [4, 5, 0]]."""
    x = numbers(X).requires_grad_()
    grad_output = numbers([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y = assert_tensor(student.function("relu")(x), shape=x.shape, dtype=x.dtype, what="relu(x)")
    laws.check_attached(y, "relu(x)")
    (gradient,) = torch.autograd.grad((y * grad_output).sum(), x, allow_unused=True)
    assert_close(gradient, numbers([[0.0, 0.0, 3.0], [4.0, 5.0, 0.0]]), what="the gradient at x")


@promise(
    "differs_from_torch",
    hint="Where is your derivative 1 and PyTorch's 0?",
    after="test_example_gradients",
)
def test_example_differs_from_torch(student: Student) -> None:
    """differs_from_torch of [[-3, -0.5, 0], [0.25, 2, -1]] is True at the 0, and nowhere else."""
    x = numbers(X)
    assert_equal(
        student.function("differs_from_torch")(x),
        torch.tensor([[False, False, True], [False, False, False]]),
        what="differs_from_torch(x)",
    )


def numbers(values: list[list[float]]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)
