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
    wrong = {
        "a future after the end, too": [11.0, 22.0, 32.0],
        "a future only where dones, not where the game goes on": [10.0, 20.0, 32.0],
        "the index of the best action": [10.5, 20.0, 30.0],
        "the maximum over the batch, not over the actions": [12.0, 21.0, 30.0],
        "one maximum for the whole batch": [12.0, 22.0, 30.0],
        "the mean over the actions": [10.5, 21.0, 30.0],
        "0 where dones: the last reward still counts": [11.0, 22.0, 0.0],
        "gamma on the reward, too": [6.0, 12.0, 30.0],
        "no gamma": [12.0, 24.0, 30.0],
    }
    named = {f"Your target has {words}.": torch.tensor(values) for words, values in wrong.items()}
    assert_close(target, torch.tensor([11.0, 22.0, 30.0]), what="the target", mistakes=named)


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
    best = torch.tensor([7.0, 18.0, 28.0])
    wrong = {
        "broadcasts (B, 1) against (B,) to (B, B): bring both to (B,)": errors.square().mean(),
        "is the sum, not the mean": right * 3,
        "is half of the mean squared difference": right / 2,
        "is the mean absolute difference: square it": errors.diag().abs().mean(),
        "is the smooth L1 (Huber) one, not the square": errors.diag().abs().mean() - 0.5,
        "is that of the best actions, not of the actions taken": best.square().mean(),
    }
    named = {f"Your loss {words}.": value for words, value in wrong.items()}
    assert_close(entry(report, "loss"), right, what="the loss", mistakes=named)
    told = "After td_loss the parameter of net requires no gradient: leave requires_grad as it is."
    assert entry(report, "requires_grad") is True, told
    told = "No gradient flows through net(states): only the target is a constant."
    assert entry(report, "gradient") is not None, told
    slopes = torch.tensor([[-29.0, 0.0, 0.0], [0.0, -12.0, -19.0]]) * 2 / 3
    followed = slopes + torch.tensor([[0.0, 12.0, 0.0], [19.0, 0.0, 0.0]]) / 3
    through = {"The gradient also flows through the target: it has to be a constant.": followed}
    assert_close(entry(report, "gradient"), slopes, what="the gradient", mistakes=through)


@promise(
    "soft_update",
    hint="0.75 * target + 0.25 * net, written into the parameter, under torch.no_grad().",
)
def test_example_update(student: Student) -> None:
    """With tau = 0.25 a target of 4 and a net of 8 give 5, and the buffer is that of net."""
    values = torch.full((2, 3), 4.0)
    nets = student.made("table", values, 1), student.made("table", values * 2, 9)
    report = student.run("updated", *nets, 0.25)
    told = {
        "tau is on the wrong side: it is the weight of net.": values + 3,
        "target_net has not changed: write into its parameter.": values,
        "target_net is now equal to net: it should only move a step of tau.": values + 4,
    }
    what = "the parameter of target_net"
    assert_equal(entry(report, "net"), values * 2, what="net, which the update leaves alone")
    assert_close(entry(report, "values"), values + 1, what=what, mistakes=told)
    named = {
        "The buffer has not changed: copy that of net.": torch.tensor(1),
        "The buffer is mixed like the parameters: copy that of net.": torch.tensor(3),
    }
    what = "the buffer of target_net"
    assert_close(entry(report, "updates"), torch.tensor(9), what=what, mistakes=named)
