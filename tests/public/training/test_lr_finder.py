"""The learning-rate range test on examples that can be followed by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, laws, must_raise, promise
from grader.judge.student import Student


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def entry(reported: Any, name: str) -> Any:
    """A part of a probe's report. It is checked, because a report may have been tampered with."""
    assert isinstance(reported, dict), "Your code disturbed the observation of its own result."
    assert name in reported, "Your code disturbed the observation of its own result."
    return reported[name]


@promise(
    "exponential_lrs", points=2, hint="Space the exponents evenly: here they are -2, -1 and 0."
)
def test_three_rates(student: Student) -> None:
    """Three rates from 0.01 to 1 are 0.01, 0.1 and 1."""
    assert_close(
        student.function("exponential_lrs")(0.01, 1.0, 3),
        numbers(0.01, 0.1, 1.0),
        what="exponential_lrs(0.01, 1.0, 3)",
    )


@promise(
    "exponential_lrs", hint="Check the arguments first: lr_min <= 0, lr_max <= lr_min, steps < 2."
)
def test_bad_rates(student: Student) -> None:
    """An lr_min of 0, an lr_max that is not above lr_min, or a single step is a ValueError."""
    table = {"lr_min": [(0.0, 1.0, 3)], "lr_max": [(1.0, 1.0, 3)], "steps": [(0.01, 1.0, 1)]}
    laws.check_errors(student, "exponential_lrs", table)


@promise(
    "lr_range_test",
    points=44,
    hint="Record the loss of each step before the step, and restore the model at the end.",
    after="test_three_rates",
)
def test_one_weight(student: Student) -> None:
    """A test of a model with one weight gives the numbers below, and leaves the model as it was."""
    # The weight w begins at 1, the loss is w * w, its gradient 2 * w, a step w - lr * 2 * w:
    #     rate    weight before    loss        weight after
    #     0.01    1                1           0.98
    #     0.1     0.98             0.9604      0.784
    #     1.0     0.784            0.614656    -0.784
    # The loader has one batch, so it is iterated three times.
    result = student.run("one_weight")
    assert_close(entry(result, "learning_rates"), numbers(0.01, 0.1, 1.0), what="learning_rates")
    assert_close(entry(result, "losses"), numbers(1.0, 0.9604, 0.614656), what="losses")
    assert_close(
        [entry(result, "weight"), entry(result, "lr")],
        [1.0, 0.5],
        what="the list of the weight and the optimizer's learning rate after the test",
    )


@promise(
    "lr_range_test",
    hint="Record, then stop; keep the lowest loss so far; restore what was, in any case.",
    after="test_three_rates",
)
def test_five_batches(student: Student) -> None:
    """Of the losses 8, 4, 2, 1, 3, 5, 1 and of 3, NaN, 1 the test records 8, 4, 2, 1, 3, 5 and 3, NaN."""
    runs = [
        student.run("scripted", [8, 4, 2, 1, 3, 5, 1]),
        student.run("scripted", [3, float("nan"), 1]),
    ]
    right = [numbers(8, 4, 2, 1, 3, 5), numbers(3, float("nan"))]
    assert_close([entry(run, "losses") for run in runs], right, what="the list of recorded losses")
    for run in runs:
        count = len(entry(run, "losses"))
        assert entry(run, "rates") == count, "There is one learning rate for each loss, no more."
        assert_equal(
            [entry(run, "modes during"), entry(run, "modes after")],
            [[[True] * 3] * count, [False, True, False]],
            what="the list of the training modes of three modules in each step, and afterwards",
        )
        assert_equal(
            entry(run, "lrs"), [0.5, 0.25], what="the list of the groups' rates afterwards"
        )


@promise(
    "suggest_lr", points=3, hint="The lowest loss before is 1, so 3 is not yet divergence and 5 is."
)
def test_four_losses(student: Student) -> None:
    """The losses 2, 1, 3, 5 diverge at the last one."""
    suggestion = student.run("suggestion", numbers(0.001, 0.02, 0.3, 1.0), numbers(2, 1, 3, 5))
    assert_close(suggestion, 0.1, what="the suggestion")
    rates, nan = numbers(0.001, 0.02, 0.3, 1.0), float("nan")
    assert_close(
        [
            student.run("suggestion", rates, numbers(2, nan, 3, 9)),
            student.run("suggestion", rates, numbers(2, 1, 3, 5), 2.0),
        ],
        [0.002, 0.03],
        what="the list of suggestions for 2, NaN, 3, 9 and, with factor=2, for 2, 1, 3, 5",
    )


@promise("suggest_lr", hint="If the loop ends without a divergence, raise ValueError.")
def test_no_divergence(student: Student) -> None:
    """The losses 2, 1, 3, 3 never diverge: a ValueError."""
    with must_raise(ValueError, call="suggest_lr for 2, 1, 3, 3"):
        student.run("suggestion", numbers(0.001, 0.02, 0.3, 1.0), numbers(2, 1, 3, 3))


@promise(
    "plot_lr_range_test",
    points=3,
    hint="One Axes, set_xscale('log'), the curve, and a vertical line at the suggestion.",
)
def test_figure(student: Student) -> None:
    """The figure has one Axes with a logarithmic x axis, a curve and a line."""
    result = student.own("LRRangeTest", numbers(0.001, 0.01, 0.1, 1.0), numbers(2, 1, 3, 5))
    figure = laws.figure_of(student, "plot_lr_range_test", result, 0.1)
    laws.check_axes(figure, x_scale="log")
    lines = laws.axes_of(figure).lines
    assert len(lines) > 1, "The curve or the vertical line is missing."
    upright = [
        xy for xy in map(laws.points_of, lines) if len(xy) > 1 and (xy[:, 0] == xy[0, 0]).all()
    ]
    assert upright, "No line is vertical: axvline(suggestion)."
    assert_close(upright[0][0, 0], numbers(0.1)[0], what="the x of the vertical line")
    laws.check_leaves_pyplot(student, "plot_lr_range_test", result)
