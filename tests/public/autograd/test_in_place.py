"""Small examples for in_place_outcome, sgd_step and exponential_average."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, entry, laws, promise
from grader.judge.student import Student

EXAMPLES = {
    "a leaf that requires a gradient, and x * x": "leaf",
    "the result of other operations, and x * x": "needed",
    "the result of other operations, and x + 1": "safe",
    "plain data, and x * x": "safe",
    "plain data, and x * w": "needed",
}


@promise(
    "in_place_outcome",
    hint="First ask whether x is a leaf that requires a gradient; then look at the tensors that forward saves.",
)
def test_example_outcomes(student: Student) -> None:
    """in_place_outcome of a leaf is "leaf", of a result and x * x "needed", of x + 1 "safe"."""
    answers = entry(student.run("outcomes", torch.tensor([1.0, 2.0, 4.0])), kind=list, count=5)
    assert_equal(
        dict(zip(EXAMPLES, answers, strict=True)),
        EXAMPLES,
        what="the dict of answers of in_place_outcome",
    )


@promise("sgd_step", hint="with torch.no_grad(): p -= lr * p.grad")
def test_example_step(student: Student) -> None:
    """A step with lr = 0.5 takes [1, 2, 4] with the gradient [2, 0, -2] to [0, 2, 5], in place."""
    parameters = student.made("parameters", numbers(1, 2, 4), numbers(2, 0, -2))
    seen = laws.observe(student, "sgd_step", parameters, 0.5).checked()
    assert_close(
        entry(entry(seen.after(0, "items"), kind=list, count=1)[0], "values"),
        numbers(0, 2, 5),
        what="the parameter after the step",
    )


@promise(
    "exponential_average",
    hint="Begin with averages = [x[0]], and append a new tensor for each step.",
)
def test_example_average(student: Student) -> None:
    """The average of [1, 2, 4] with momentum 0.75 is [1, 1.25, 1.9375]."""
    assert_close(
        student.function("exponential_average")(numbers(1, 2, 4), 0.75),
        numbers(1, 1.25, 1.9375),
        what="the average",
    )


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)
