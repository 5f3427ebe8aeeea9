"""Small examples for the tape, which students may read."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, promise
from grader.judge.student import Student


@promise("unbroadcast", hint="Each of the three numbers was used in two rows: 1 + 4, 2 + 5, 3 + 6.")
def test_example_unbroadcast(student: Student) -> None:
    """The gradient of a (3,) that was added to a (2, 3) is the sum of two rows."""
    gradient = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    for shape, expected in (((3,), [5.0, 7.0, 9.0]), ((2, 1), [[6.0], [15.0]])):
        result = student.function("unbroadcast")(gradient, shape)
        assert_close(result, torch.tensor(expected), what=f"the gradient for {shape}")


@promise("Value.backward", hint="x is used twice: y from the product, and 1 from the sum.")
def test_example_product(student: Student) -> None:
    """x * y + x at x = 3 and y = 4 is 15; its gradients are 4 + 1 and 3."""
    result, x, y = student.run("product")
    assert_equal(result, 15.0, what="x * y + x")
    assert_equal(x, 5.0, what="the gradient of x")
    assert_equal(y, 3.0, what="the gradient of y")


@promise("Value", hint="Each element of b is used in two rows.")
def test_example_row(student: Student) -> None:
    """If the gradient of x + b is 2 everywhere, x has the gradient 2, and a b for two rows has 4."""
    x, b = student.run("row")
    assert_equal(x, torch.full((2, 3), 2.0).double(), what="the gradient of x")
    assert_equal(b, torch.full((3,), 4.0).double(), what="the gradient of b")


@promise("Value", hint="gradient @ w.T is (1, 1) @ (1, 2), and x.T @ gradient is (2, 1) @ (1, 1).")
def test_example_layer(student: Student) -> None:
    """relu([1, 2] @ [1, 1]) is 3, with the gradients [1, 1] and [1, 2]."""
    result, x, w = student.run("layer")
    assert_equal(result, 3.0, what="the result")
    assert_equal(x, torch.ones(1, 2).double(), what="the gradient of x")
    assert_equal(w, torch.tensor([[1.0], [2.0]]).double(), what="the gradient of w")
