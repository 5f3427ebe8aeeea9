"""Some symptoms: tests of five of the eight bugs."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from grader.judge.checks import assert_close, assert_equal, entry, promise
from grader.judge.student import Student


@promise(
    "make_loaders",
    hint="In which order does a DataLoader go through its data, unless it is told otherwise?",
)
def test_example_order(student: Student) -> None:
    """A pass over sorted training data yields all of them, in another order."""
    order = entry(student.run("order", 20), kind=list)
    assert order != list(range(20)), "The training data come in their sorted order."
    assert_equal(sorted(map(str, order)), sorted(map(str, range(20))), what="the sorted samples")


@promise(
    "make_optimizer",
    hint="How far does a step go, and which rates stand in the documentation of torch.optim?",
)
def test_example_rate(student: Student) -> None:
    """The learning rate is from 1e-4 to 0.1."""
    rates = entry(student.run("rates"), kind=list)
    assert rates, "The optimizer trains nothing."
    for rate in rates:
        fine = isinstance(rate, float) and 0.99e-4 < rate < 0.101
        assert fine, (
            f"The learning rate is {rate!r:.30}, with which training diverges or stands still."
        )


@promise("classification_loss", hint="What does F.cross_entropy do with its input first?")
def test_example_loss(student: Student) -> None:
    """The loss of logits (2, 0), (0, 3) and (1, 1) for the target 0 is (0.127 + 3.049 + 0.693) / 3."""
    logits, targets = torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 1.0]]), torch.tensor([0, 0, 0])
    loss = student.function("classification_loss")(logits, targets)
    assert_close(loss, F.cross_entropy(logits, targets), what="the loss")


@promise("train_epoch", hint="What is in .grad when the second backward pass begins?")
def test_example_steps(student: Student) -> None:
    """Two steps of SGD with rate 0.5 take a weight from 1 to 0, and then to 3."""
    one = torch.ones(1)
    weight = student.run("steps", [(one, 0 * one), (one, 3 * one)])
    assert_close(weight, torch.tensor([[3.0]]), what="the weight")


@promise(
    "evaluate", hint="Dropout drops half of the numbers. When does it do so, and who tells it?"
)
def test_example_accuracy(student: Student) -> None:
    """A model that is always right has the accuracy 1, however much dropout there is in it."""
    evaluations = entry(student.run("evaluations", 400), kind=list, count=2)
    for accuracy in [entry(result, 1, default=None) for result in evaluations]:
        # Half of the rows are dropped. For those all logits are equal, and a quarter of them is right.
        dropped = isinstance(accuracy, float) and 0.5 < accuracy < 0.73
        assert not dropped, "An accuracy is not 1: dropout drops, as if the model were training."
    loss = math.log(math.e + 3) - 1
    right, what = [(loss, 1.0)] * 2, "the list of both results"
    assert_close(evaluations, right, what=what, rtol=1e-5)
