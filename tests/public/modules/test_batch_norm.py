"""Small examples for BatchNorm1d and batching_gap."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, laws, must_raise, promise
from grader.judge.student import Student

# The columns have means 2 and 10, biased variances 1 and 9, and unbiased variances 4 / 3 and 12.
X = torch.tensor([[1.0, 7.0], [3.0, 13.0], [1.0, 13.0], [3.0, 7.0]])


@promise(
    "BatchNorm1d.forward",
    points=2,
    hint="(x - mean) / sqrt(var + eps), mean and biased variance of each column.",
)
def test_example_training(student: Student) -> None:
    """In training mode the columns 1, 3, 1, 3 and 7, 13, 13, 7 become -1, 1, -1, 1 and -1, 1, 1, -1."""
    layer = student.module("BatchNorm1d", 2, eps=1e-9)
    laws.check_parameters(layer, {"weight": [2], "bias": [2]}, call="BatchNorm1d(2)")
    right = torch.tensor([[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]])
    assert_close(layer(X), right)


@promise(
    "BatchNorm1d.forward",
    hint="A variance needs at least two values: check their number before you compute.",
)
def test_example_one_row(student: Student) -> None:
    """In training mode a batch of one row is a ValueError."""
    layer = student.module("BatchNorm1d", 2)
    with must_raise(ValueError, mentions="x", call="A pass of one row in training mode"):
        layer(X[:1])


@promise(
    "BatchNorm1d.forward",
    points=2,
    hint="(1 - momentum) * running + momentum * batch's, with the unbiased variance.",
)
def test_example_running(student: Student) -> None:
    """One pass moves running_mean to a tenth of the mean, and running_var from 1 towards [4/3, 12]."""
    names = ("running_mean", "running_var", "num_batches_tracked")
    values = [torch.tensor(numbers) for numbers in ([0.2, 1.0], [0.9 + 0.4 / 3, 2.1], 1)]
    right = dict(zip(names, values, strict=True))
    assert_close(student.run("buffers", X), right, what="the dict of buffers")


@promise(
    "BatchNorm1d.forward",
    hint="if self.training: the batch's statistics; else self.running_mean, self.running_var.",
)
def test_example_evaluation(student: Student) -> None:
    """In evaluation mode a new layer with eps = 3, running mean 0 and variance 1, gives x / sqrt(4)."""
    layer = student.module("BatchNorm1d", 2, eps=3.0).eval()
    assert_close(layer(X), X / 2)
    assert_close(layer(X[:1]), X[:1] / 2, what="the output for one row in evaluation mode")


@promise(
    "batching_gap",
    points=2,
    hint="Run a deep copy on x and on each batch, in the mode in which the module is.",
)
def test_example_gap(student: Student) -> None:
    """x = [0, 2, 4, 6] in batches of two gives a gap in training mode, and none in evaluation mode."""
    x = torch.tensor([[0.0], [2.0], [4.0], [6.0]])
    for training in (True, False):
        module = student.made("network", training)
        value = laws.check_changes_nothing(student, "batching_gap", module, x, 2)
        # All at once: -3, -1, 1, 3 over the root of 5. In batches: -1, 1, -1, 1.
        right = 1 + 1 / 5**0.5 if training else 0.0
        what = f"the gap in {'training' if training else 'evaluation'} mode"
        assert_close(value, right, what=what, rtol=1e-5, atol=1e-6)
