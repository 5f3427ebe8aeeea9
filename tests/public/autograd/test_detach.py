"""Small examples for to_numpy, td_target, td_loss and soft_update."""

from __future__ import annotations

import numpy as np
import torch

from grader.judge.checks import assert_close, assert_equal, entry, promise
from grader.judge.student import Student

# The values of three actions in the states 0 and 1; the next states are 0, 1, 1.
VALUES = torch.tensor([[1.0, 2.0, 0.0], [4.0, -1.0, 3.0]])
LATER = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
REWARDS = torch.tensor([10.0, 20.0, 30.0])
DONES = torch.tensor([False, False, True])
STATES, ACTIONS = LATER.flip(0), torch.tensor([1, 2, 0])


@promise("to_numpy", hint="x.detach() has the same values, and no graph.")
def test_example_numpy(student: Student) -> None:
    """to_numpy of [[1.5], [2.5]], which requires a gradient, is an array of the same shape."""
    x = torch.tensor([[1.5], [2.5]], requires_grad=True)
    expected = np.array([[1.5], [2.5]], dtype=np.float32)
    array = student.function("to_numpy")(x)
    assert_equal(array, expected, what="to_numpy(x)")


@promise(
    "td_target",
    points=2,
    hint="The largest values are 2 in state 0 and 4 in state 1, and gamma is 0.5 here.",
)
def test_example_target(student: Student) -> None:
    """The targets are 10 + 0.5 * 2, 20 + 0.5 * 4, and at the end 30."""
    table = student.made("table", VALUES)
    target = student.function("td_target")(table, REWARDS, LATER, DONES, 0.5)
    assert_close(target, torch.tensor([11.0, 22.0, 30.0]), what="the target")


@promise(
    "td_loss",
    points=2,
    hint="The predictions are -1, 3 and 1; the targets 11, 22 and 30 are constants.",
)
def test_example_loss(student: Student) -> None:
    """The loss is (12**2 + 19**2 + 29**2) / 3, and its gradient flows through net(states) only."""
    transitions = STATES, ACTIONS, REWARDS, LATER, DONES, 0.5
    report = student.run("loss_and_gradient", student.made("table", VALUES), *transitions)
    errors = torch.tensor([[-1.0], [3.0], [1.0]]) - torch.tensor([11.0, 22.0, 30.0])
    right = errors.diag().square().mean()
    assert_close(entry(report, "loss"), right, what="the loss")
    told = "After td_loss the parameter of net requires no gradient: leave requires_grad as it is."
    assert entry(report, "requires_grad") is True, told
    told = "No gradient flows through net(states): only the target is a constant."
    assert entry(report, "gradient") is not None, told
    slopes = torch.tensor([[-29.0, 0.0, 0.0], [0.0, -12.0, -19.0]]) * 2 / 3
    assert_close(entry(report, "gradient"), slopes, what="the gradient")


@promise(
    "soft_update",
    hint="0.75 * target + 0.25 * net, written into the parameter, under torch.no_grad().",
)
def test_example_update(student: Student) -> None:
    """With tau = 0.25 a target of 4 and a net of 8 give 5, and the buffer is that of net."""
    values = torch.full((2, 3), 4.0)
    nets = student.made("table", values, 1), student.made("table", values * 2, 9)
    report = student.run("updated", *nets, 0.25)
    what = "the parameter of target_net"
    assert_equal(
        entry(report, "net"),
        values * 2,
        what="the parameter of net, which the update leaves alone,",
    )
    assert_close(entry(report, "values"), values + 1, what=what)
    what = "the buffer of target_net"
    assert_close(entry(report, "updates"), torch.tensor(9), what=what)
