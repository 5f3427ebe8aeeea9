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
    hint="First ask whether x is a leaf that requires a gradient; then look at what forward saves.",
)
def test_example_outcomes(student: Student) -> None:
    """in_place_outcome of a leaf is "leaf", of a result and x * x "needed", of x + 1 "safe"."""
    answers = entry(student.run("outcomes", torch.tensor([1.0, 2.0, 4.0])), kind=list, count=5)
    leaf, used, unused, data, other = EXAMPLES
    assert_equal(
        dict(zip(EXAMPLES, answers, strict=True)),
        EXAMPLES,
        what="what in_place_outcome says of x and forward",
        mistakes={
            "Plain data is a leaf, but it requires no gradient: changing it in place is allowed.": (
                EXAMPLES | {data: "leaf", other: "leaf"}
            ),
            "x + 1 has a graph, but it has not saved x: nothing needs the old x.": (
                EXAMPLES | {unused: "needed"}
            ),
            "A leaf that requires a gradient is refused at once, whatever is saved.": (
                EXAMPLES | {leaf: "needed"}
            ),
            'A result is not a "leaf", though it requires a gradient: ask x.is_leaf, too.': (
                EXAMPLES | {used: "leaf", unused: "leaf"}
            ),
            "x * w saves x for the gradient of w, though x has none of its own.": (
                EXAMPLES | {other: "safe"}
            ),
            "For plain data, x * x has no gradient: nothing is saved.": EXAMPLES | {data: "needed"},
        },
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
        mistakes={
            "The parameter has not changed: p = p - ... binds the name p to a new tensor.": numbers(
                1, 2, 4
            ),
            "The step goes uphill: subtract lr * p.grad.": numbers(2, 2, 3),
            "The learning rate is left out: subtract lr * p.grad.": numbers(-1, 2, 6),
        },
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
        mistakes={
            "All steps equal the last: one tensor was changed in place again and again.": numbers(
                *[1.9375] * 3
            ),
            "momentum is on the wrong side: it is the weight of the previous average.": numbers(
                1, 1.75, 3.4375
            ),
            "The average starts at 0: out[0] is x[0].": numbers(0.25, 0.6875, 1.515625),
            "out[t] is made of x[t - 1] and x[t]: it is made of out[t - 1].": numbers(1, 1.25, 2.5),
            "x[t] comes in without its weight 1 - momentum.": numbers(1, 2.75, 6.0625),
            "It is the mean of all steps so far: weigh with momentum.": numbers(1, 1.5, 7 / 3),
        },
    )


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)
