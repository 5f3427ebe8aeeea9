"""Small examples for evaluating, predict and ordinary."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, entry, laws, promise
from grader.judge.student import Student

BEFORE = {"model": True, "dropout": True, "linear": True, "frozen dropout": False, "grad": True}
OFF, ALL, GRAD = dict.fromkeys(BEFORE, False), dict.fromkeys(BEFORE, True), {"grad": True}
WHAT = "the dict of the modes of the model and its parts, and of grad mode,"


@promise("evaluating", points=2, hint="model.eval() for the modes, torch.no_grad() for the graph.")
def test_example_inside(student: Student) -> None:
    """Inside the block the model and all of its parts are in evaluation mode, and grad mode is off."""
    report = student.run("block", student.made("model"))
    assert_equal(
        dict(zip(BEFORE, entry(report, "inside", kind=list, count=5), strict=True)),
        OFF,
        what=f"{WHAT} inside the block",
    )


@promise(
    "evaluating",
    points=2,
    hint="Remember the mode of each of model.modules(), and set each one back.",
    after="test_example_inside",
)
def test_example_after(student: Student) -> None:
    """After the block everything is as it was, also a part that was in evaluation mode."""
    report = student.run("block", student.made("model"))
    assert_equal(
        dict(zip(BEFORE, entry(report, "after", kind=list, count=5), strict=True)),
        BEFORE,
        what=f"{WHAT} after the block",
    )


@promise(
    "predict",
    points=3,
    hint="[model(inputs) for inputs, _ in loader] inside the block, then torch.cat.",
)
def test_example_predict(student: Student) -> None:
    """The predictions for the batches [[1, 2], [3, 4]] and [[5, 6]] are [[3], [7], [11]]."""
    loader = [(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 0), (torch.tensor([[5.0, 6.0]]), 1)]
    result = laws.check_ordinary(student, "predict", student.made("model"), loader)
    right = torch.tensor([[3.0], [7.0], [11.0]])
    assert_close(result, right, what="the result of predict")


@promise(
    "ordinary",
    points=2,
    hint="A clone is an inference tensor if it is made in inference mode, else it is not.",
)
def test_example_ordinary(student: Student) -> None:
    """An inference tensor is copied to an ordinary one; an ordinary tensor comes back itself."""
    x = torch.tensor([[1.0], [2.0]])
    for inside in (False, True):
        report = student.run("ordinary_of", x, inside)
        assert_close(entry(report, "values"), x, what="the result of ordinary")
        where = "called in inference mode" if inside else "called outside of inference mode"
        told = f"The result is still an inference tensor, {where}."
        assert entry(report, "inference") is False, told
        assert entry(report, "itself") is True, "An ordinary tensor is copied: return x itself."
