"""Small examples for AdamW; probe_adamw.py has the steps."""

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import assert_close, laws, promise
from grader.judge.student import Student


def pair(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


START, GRADS = pair(2, -4), [pair(1, -3), pair(1, 1)]
OPTIONS = {"lr": 0.1, "betas": (0.5, 0.91), "eps": 1.0, "weight_decay": 0.5}
# One step from START: m_hat is the gradient and v_hat its square, so that 0.95 * 2 - 0.1 * 1 / (1 + 1) = 1.85.
DECOUPLED, L2 = pair(1.85, -3.725), pair(1.93333333333, -3.91666666667)


@promise(
    "AdamW.step",
    points=5,
    hint="p.mul_(1 - lr * weight_decay), then the moments of p.grad alone, corrected.",
)
def test_example_steps(student: Student) -> None:
    """From (2, -4), with lr=0.1, weight_decay=0.5 and eps=1, the first step leads to (1.85, -3.725)."""
    first = student.run("values", START, GRADS[:1], OPTIONS)
    assert_close(first, [DECOUPLED], what="the list of the values after a step")
    # In the first step the corrected moments are the same for any betas.
    history, after = student.run("values", START, GRADS, OPTIONS), pair(1.7075, -3.528312188091)
    what = "the list of the values after two steps"
    assert_close(history, [DECOUPLED, after], what=what)


@promise(
    "AdamW.step",
    points=2,
    hint="gradient = p.grad + weight_decay * p, before the moments, if not decoupled.",
)
def test_example_l2(student: Student) -> None:
    """With decoupled_weight_decay=False the first step leads to (1.9333333, -3.9166667)."""
    options = {**OPTIONS, "decoupled_weight_decay": False}
    history = student.run("values", START, GRADS[:1], options)
    assert_close(history, [L2], what="the list of the values after a step")


@promise(
    "AdamW.step",
    points=2,
    hint="Skip p.grad is None; the count and both moments stand in self.state[p].",
)
def test_example_state(student: Student) -> None:
    """A step without a gradient changes nothing, and a new AdamW goes on from a state dict."""
    history = student.run("values", START, [GRADS[0], None], OPTIONS)
    what = "the list of the values, the second step without a gradient,"
    assert_close(history, [DECOUPLED, DECOUPLED], what=what)
    value, right = student.run("resumed", START, GRADS, OPTIONS), pair(1.7075, -3.528312188091)
    assert_close(value, right, what="the value after saving and loading")


@promise(
    "AdamW.__init__", hint="if lr < 0: raise ValueError(...), and so on, before super().__init__."
)
def test_example_errors(student: Student) -> None:
    """An lr below 0 and a beta of 1 are ValueErrors that name the argument."""
    bad: Any = {
        "lr or learning rate": [([START], -0.1)],
        "betas or beta": [([START], 0.1, (0.9, 1.0))],
    }
    laws.check_errors(student, "AdamW", bad, fine=([START], 0.1))
