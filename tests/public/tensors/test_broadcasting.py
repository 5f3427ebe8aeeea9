"""Small examples for shapes that broadcast, their gradients, and a loss that refuses to."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, must_raise, promise
from grader.judge.student import Student


@promise(
    "broadcast_shape",
    hint="Write one shape below the other, aligned at the right, and fill the gaps with 1.",
)
def test_example_shapes(student: Student) -> None:
    """(10,) and (10, 1) give (10, 10); (1, 3) and (0, 1) give (0, 3)."""
    function = student.function("broadcast_shape")
    assert_equal(function((10,), (10, 1)), (10, 10), what="the shape")
    assert_equal(function((1, 3), (0, 1)), (0, 3), what="the shape")


@promise("broadcast_shape", hint="If two sizes differ, one of them has to be 1.")
def test_example_shapes_that_do_not_fit(student: Student) -> None:
    """(10, 5) and (5, 10) are a ValueError that names shape or other."""
    function = student.function("broadcast_shape")
    with must_raise(
        ValueError, mentions="shape or other", call="broadcast_shape((10, 5), (5, 10))"
    ):
        function((10, 5), (5, 10))


@promise(
    "sum_to_shape", hint="Sum over the dimensions that were added or stretched, with keepdim=True."
)
def test_example_sum(student: Student) -> None:
    """A gradient of ones of shape (4, 2, 3) becomes eights for the shape (3,), twelves for (2, 1)."""
    ones = torch.ones(4, 2, 3)
    for shape, count in {(3,): 8.0, (2, 1): 12.0, (2, 3): 4.0, (4, 2, 3): 1.0}.items():
        total = student.function("sum_to_shape")(ones, shape)
        what = f"the gradient for the shape {shape}"
        assert_close(total, torch.full(shape, count), what=what)


@promise(
    "mse_loss", hint="Square the differences; then take their mean, their sum, or all of them."
)
def test_example_loss(student: Student) -> None:
    """The loss of [1, 2, 5] and [1, 4, 1] is 20 / 3."""
    prediction, target = torch.tensor([1.0, 2.0, 5.0]), torch.tensor([1.0, 4.0, 1.0])
    function = student.function("mse_loss")
    loss = function(prediction, target)
    assert_close(loss, torch.tensor(20 / 3), what="the loss")
    assert_close(function(prediction, target, "sum"), torch.tensor(20.0), what="the sum")
    errors = function(prediction, target, "none")
    assert_close(errors, torch.tensor([0.0, 4.0, 16.0]), what="the errors")


@promise("mse_loss", hint="Compare prediction.shape and target.shape before you subtract.")
def test_example_loss_errors(student: Student) -> None:
    """Shapes (3, 1) and (3,) are a ValueError, and so is the reduction "average"."""
    prediction, target = torch.tensor([1.0, 2.0, 5.0]), torch.tensor([1.0, 4.0, 1.0])
    function = student.function("mse_loss")
    with must_raise(
        ValueError, mentions="prediction or target", call="mse_loss of (3, 1) and (3,)"
    ):
        function(prediction[:, None], target)
    with must_raise(ValueError, mentions="reduction", call='mse_loss with reduction="average"'):
        function(prediction, target, "average")
