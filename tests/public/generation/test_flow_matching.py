"""Small examples for flow matching, which students may read."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, entry, promise
from grader.judge.student import Student


@promise("path", hint="A quarter of the way from 0 to 8 is 2, and three quarters are 6.")
def test_example_path(student: Student) -> None:
    """From [0, 0] to [8, 4], the points at t = 0.25 and t = 0.75 are [2, 1] and [6, 3]."""
    x0, x1 = torch.zeros(2, 2), torch.tensor([[8.0, 4.0], [8.0, 4.0]])
    result = student.function("path")(x0, x1, torch.tensor([0.25, 0.75]))
    assert_close(entry(result, 0), torch.tensor([[2.0, 1.0], [6.0, 3.0]]), what="the points")
    assert_close(entry(result, 1), x1, what="the velocities")


@promise(
    "flow_matching_loss", hint="Where model(x, t) is the velocity, the squared difference is 0."
)
def test_example_loss(student: Student) -> None:
    """The loss of a model that knows the velocity is 0, and 9 if it is off by 3."""
    x1 = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).double()
    for off in (0.0, 3.0):
        what = f"the loss of a model that is off by {off:.0f}"
        loss, right = student.run("example_loss", x1, off), torch.tensor(off**2).double()
        assert_close(loss, right, what=what, rtol=1e-4, atol=1e-4)


@promise("sample", hint="The times are 0 and 0.5, and each step is half as long as the velocity.")
def test_example_sample(student: Student) -> None:
    """Where the velocity is 8 * t, two steps lead from 1 to 1 + 0 / 2 + 4 / 2 = 3."""
    samples = student.run("example_sample", torch.ones(1, 1), 2)
    assert_close(samples, torch.tensor([[3.0]]), what="the samples")
