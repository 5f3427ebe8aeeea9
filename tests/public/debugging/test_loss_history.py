"""Small examples for LossHistory and train_epoch."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, entry, promise
from grader.judge.student import Student


@promise(
    "LossHistory.end_epoch",
    points=2,
    hint="(1 * 3 + 5 * 1) / (3 + 1): each loss counts by its size.",
)
def test_example_means(student: Student) -> None:
    """Losses of 1 (3 samples) and 5 (1 sample) have the mean 2, and the next epoch begins at 0."""
    report = student.run("means", [[(1.0, 3), (5.0, 1)], [(7.0, 1)]])
    what = "epochs, after two epochs,"
    assert_close(entry(report, "epochs"), [2.0, 7.0], what=what)


@promise("LossHistory.update", points=2, hint="loss.detach() is the same value without the graph.")
def test_example_graphs(student: Student) -> None:
    """After each of three updates no graph is alive: the caller has dropped the loss."""
    report = student.run("graphs", 3)
    what = "the list of the numbers of live graphs"
    assert_equal(entry(report, "alive"), [0, 0, 0], what=what)


@promise(
    "train_epoch",
    points=2,
    hint="zero_grad, loss, backward, step, history.update(loss, len(inputs)).",
)
def test_example_epoch(student: Student) -> None:
    """Two steps on batches of 3 rows and 1 row: the mean loss counts rows."""
    ones = torch.ones(3, 1)
    # The weight goes from 1 by 0.5 * 2 to 0, then by 0.5 * 2 * 3 to 3.
    report = student.run("trained", [(ones, 0 * ones), (ones[:1], 3 * ones[:1])])
    assert_close(entry(report, "weight"), torch.tensor([[3.0]]), what="the weight")
    assert_close(entry(report, "mean"), (1.0 * 3 + 9.0 * 1) / 4, what="the result")
