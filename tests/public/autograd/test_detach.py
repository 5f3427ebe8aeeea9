"""Small examples for to_numpy, td_target, td_loss and soft_update."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from grader.judge.checks import assert_close, assert_equal, entry
from grader.judge.student import Student

# The values of three actions in the states 0 and 1; the next states are 0, 1, 1.
VALUES = torch.tensor([[1.0, 2.0, 0.0], [4.0, -1.0, 3.0]])
LATER = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
REWARDS = torch.tensor([10.0, 20.0, 30.0])
DONES = torch.tensor([False, False, True])
STATES, ACTIONS = LATER.flip(0), torch.tensor([1, 2, 0])


@pytest.mark.place("to_numpy")
@pytest.mark.hint("x.detach() has the same values, and no graph.")
def test_example_numpy(student: Student) -> None:
    """to_numpy of [[1.5], [2.5]], which requires a gradient, is an array of the same shape."""
    x = torch.tensor([[1.5], [2.5]], requires_grad=True)
    expected = np.array([[1.5], [2.5]], dtype=np.float32)
    array = student.function("to_numpy")(x)
    assert_equal(array, expected, what="to_numpy(x)")


@pytest.mark.points(2)
@pytest.mark.place("td_target")
@pytest.mark.hint("The largest values are 2 in state 0 and 4 in state 1, and gamma is 0.5 here.")
def test_example_target(student: Student) -> None:
    """The targets are 10 + 0.5 * 2, 20 + 0.5 * 4, and at the end 30."""
    target = student.function("td_target")(
        student.made("table", VALUES), REWARDS, LATER, DONES, 0.5
    )
    assert_close(
        target,
        torch.tensor([11.0, 22.0, 30.0]),
        what="the target",
        mistakes={
            "Your target has a future after the end, too.": torch.tensor([11.0, 22.0, 32.0]),
            "Your target has a future only where dones.": torch.tensor([10.0, 20.0, 32.0]),
            "Your target has the index of the best action.": torch.tensor([10.5, 20.0, 30.0]),
        },
    )


@pytest.mark.points(2)
@pytest.mark.place("td_loss")
@pytest.mark.hint("Predicted are -1, 3 and 1; the targets 11, 22 and 30 are constants.")
def test_example_loss(student: Student) -> None:
    """The loss is (12**2 + 19**2 + 29**2) / 3, and its gradient flows through net(states) only."""
    transitions = STATES, ACTIONS, REWARDS, LATER, DONES, 0.5
    report = student.run("loss_and_gradient", student.made("table", VALUES), *transitions)
    broadcast = ((torch.tensor([[-1.0], [3.0], [1.0]]) - torch.tensor([11.0, 22, 30])) ** 2).mean()
    told = "Your loss broadcasts (B, 1) against (B,) to (B, B): bring both to (B,)."
    right = torch.tensor((12.0**2 + 19**2 + 29**2) / 3)
    assert_close(entry(report, "loss"), right, what="the loss", mistakes={told: broadcast})
    slopes = torch.tensor([[-29.0, 0.0, 0.0], [0.0, -12.0, -19.0]]) * 2 / 3
    followed = slopes + torch.tensor([[0.0, 12.0, 0.0], [19.0, 0.0, 0.0]]) / 3
    through = {"The gradient also flows through the target: it has to be a constant.": followed}
    assert_close(entry(report, "gradient"), slopes, what="the gradient", mistakes=through)


@pytest.mark.place("soft_update")
@pytest.mark.hint("0.75 * target + 0.25 * net, written into the parameter, under torch.no_grad().")
def test_example_update(student: Student) -> None:
    """With tau = 0.25 a target of 4 and a net of 8 give 5, and the buffer is that of net."""
    nets = [
        student.made("table", torch.full((2, 3), n), updates) for n, updates in ((4.0, 1), (8.0, 9))
    ]
    report = student.run("updated", *nets, 0.25)
    right, wrong = torch.full((2, 3), 5.0), torch.full((2, 3), 7.0)
    told = {"tau is on the wrong side: it is the part that net gets.": wrong}
    assert_close(entry(report, "values"), right, what="the parameter of target_net", mistakes=told)
    assert_equal(entry(report, "updates"), torch.tensor(9), what="the buffer of target_net")
