"""Small examples for the training loop; probe_fit.py has the model."""

from __future__ import annotations

import torch
from torch import Tensor

from grader.judge.checks import assert_close, entry, promise
from grader.judge.student import Student


def batch(rows: list[float], targets: list[int]) -> tuple[Tensor, Tensor]:
    return torch.tensor(rows), torch.tensor(targets)


@promise(
    "train_epoch",
    points=2,
    hint="For each batch: zero_grad(), loss = ..., loss.backward(), optimizer.step().",
)
def test_example_training(student: Student) -> None:
    """Three batches with the gradient -1 and lr=1 bring the weight from 0 to 3, with mean loss -1."""
    report = student.run("run", "train_epoch", [0.0], [batch([1.0, 2.0], [0, 0])] * 3)
    assert_close(entry(report, "weight"), 3.0, what="the weight")
    assert_close(entry(report, "value"), -1.0, what="the mean loss")


@promise("evaluate", points=2, hint="A batch of 3 rows counts three times as much as one of 1 row.")
def test_example_evaluation(student: Student) -> None:
    """Batches with mean losses 1 (3 rows) and 3 (1 row) have the loss 1.5; 3 of 4 rows are right."""
    batches = [batch([0.0, 1.0, 2.0], [1, 1, 1]), batch([3.0], [0])]
    report, told = student.run("run", "evaluate", [0.0], batches), "Return a pair: loss, accuracy."
    pair = entry(report, "value", kind=(list, tuple), count=2, told=told)
    assert_close(pair[0], 1.5, what="the loss", rtol=1e-5)
    assert_close(pair[1], 0.75, what="the accuracy", rtol=1e-5)
    told = "Autograd is off after evaluate: use `with torch.no_grad():`, which brings it back."
    assert entry(report, "grad") is True, told


@promise(
    "fit",
    points=3,
    hint="Count the epochs in a row that do not improve; copy the best epoch's state dict, load it at the end.",
)
def test_example_fit(student: Student) -> None:
    """With losses 5, 3, 4, 4, 1 and patience=2 training stops after four epochs and goes back to two."""
    losses = [9.0, 5.0, 3.0, 4.0, 4.0, 1.0]
    report = student.run("run", "fit", losses, [batch([0.0, 0.0], [1, 1])], 5, 2)
    told = "Return a dict with the lists train_loss, val_loss and val_acc."
    history = entry(report, "value", "val_loss", told=told)
    what = "the history's val_loss"
    assert_close(history, [5.0, 3.0, 4.0, 4.0], what=what, rtol=1e-5)
    what = "the weight afterwards, which is the number of the epoch,"
    assert_close(entry(report, "weight"), 2.0, what=what)
