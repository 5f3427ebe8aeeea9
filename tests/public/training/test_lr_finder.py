"""The learning-rate range test on examples that can be followed by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal
from grader.judge.student import Student


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def entry(reported: Any, name: str) -> Any:
    """A part of what a probe reported, for even its report may have been tampered with."""
    assert isinstance(reported, dict), "Your code disturbed the observation of its own result."
    assert name in reported, "Your code disturbed the observation of its own result."
    return reported[name]


@pytest.mark.points(3)
@pytest.mark.place("exponential_lrs")
@pytest.mark.hint("Space the exponents evenly: here they are -2, -1 and 0.")
def test_three_rates(student: Student) -> None:
    """Three rates from 0.01 to 1 are 0.01, 0.1 and 1."""
    assert_close(
        student.function("exponential_lrs")(0.01, 1.0, 3),
        numbers(0.01, 0.1, 1.0),
        what="exponential_lrs(0.01, 1.0, 3)",
        mistakes=lambda: {
            "Your rates are evenly spaced themselves; their logarithms should be.": (
                numbers(0.01, 0.505, 1.0)
            ),
            "Your rates stop one step short of lr_max.": (0.01 * 100 ** numbers(0, 1 / 3, 2 / 3)),
        },
    )


@pytest.mark.points(44)
@pytest.mark.requires("test_three_rates")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("Record the loss of each step before the step, and restore the model at the end.")
def test_one_weight(student: Student) -> None:
    """A model of one weight is tested as by hand, and left as it was."""
    # The weight w begins at 1, the loss is w * w, its gradient 2 * w, a step w - lr * 2 * w:
    #     rate    weight before    loss        weight after
    #     0.01    1                1           0.98
    #     0.1     0.98             0.9604      0.784
    #     1.0     0.784            0.614656    -0.784
    # The loader has one batch, so it is iterated over three times.
    result = student.run("one_weight")
    assert_close(
        entry(result, "learning_rates"),
        numbers(0.01, 0.1, 1.0),
        what="learning_rates",
        mistakes=lambda: {
            "The loader ran out after one batch, and so did the test: begin it anew.": (
                numbers(0.01)
            ),
        },
    )
    assert_close(
        entry(result, "losses"),
        numbers(1.0, 0.9604, 0.614656),
        what="losses",
        mistakes=lambda: {
            "Your losses are those after the step.": numbers(0.9604, 0.614656, 0.614656),
            "The test does not train: the weight stays 1.": numbers(1.0, 1.0, 1.0),
            "Your gradients add up from step to step: zero them before each backward.": (
                numbers(1.0, 0.9604, 0.341056)
            ),
            "Your steps use the learning rate that the optimizer came with.": (
                numbers(1.0, 0.0, 0.0)
            ),
        },
    )
    assert_close(
        [entry(result, "weight"), entry(result, "lr")],
        [1.0, 0.5],
        what="the list of the weight and the optimizer's learning rate after the test",
        mistakes=lambda: {
            "The weight is left as the last step made it: put the parameters back.": [-0.784, 0.5],
            "The optimizer is left with the last learning rate of the test: put its state dict "
            "back.": [1.0, 1.0],
            "Nothing is put back: the weight is left as the last step made it, the optimizer with "
            "the last learning rate.": [-0.784, 1.0],
        },
    )


@pytest.mark.points(4)
@pytest.mark.place("suggest_lr")
@pytest.mark.hint("The lowest loss before is 1, so 3 is not yet divergence and 5 is.")
def test_four_losses(student: Student) -> None:
    """The losses 2, 1, 3, 5 diverge at the last one."""
    suggestion = student.run("suggestion", numbers(0.001, 0.02, 0.3, 1.0), numbers(2, 1, 3, 5))
    assert_close(
        suggestion,
        0.1,
        what="the suggestion",
        mistakes=lambda: {
            "You suggest the rate at which the loss diverges; go one decade below.": 1.0,
            "You suggest the rate of the lowest loss.": 0.02,
            "You go one decade below the rate of the lowest loss.": 0.002,
            "You suggest the last rate before the divergence.": 0.3,
            "You go one decade below the last rate before the divergence.": 0.03,
        },
    )


@pytest.mark.points(3)
@pytest.mark.place("plot_lr_range_test")
@pytest.mark.hint("One Axes, set_xscale('log'), the curve, and a vertical line at the suggestion.")
def test_figure(student: Student) -> None:
    """The figure has one Axes with a logarithmic x axis, a curve and a line."""
    found = student.run("figure", numbers(0.001, 0.01, 0.1, 1.0), numbers(2, 1, 3, 5))
    kind = str(entry(found, "type"))
    assert kind == "Figure", f"plot_lr_range_test returned {kind}, promised a matplotlib Figure."
    assert_equal(entry(found, "axes"), 1, what="the number of Axes")
    assert_equal(
        entry(found, "x scales"),
        ["log"],
        what="the list of scales of the x axis",
        mistakes=lambda: {"The x axis is linear, it should be logarithmic.": ["linear"]},
    )
    artists = entry(found, "artists")
    assert isinstance(artists, int) and artists > 1, "The curve or the vertical line is missing."
