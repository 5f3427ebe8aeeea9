"""Laws about a figure, checked on the facts that a sandbox reports."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from grader.judge.checks.laws.facts import AxesFacts, Drawn, FigureFacts, LineFacts, shaped
from grader.judge.checks.laws.figures import axes_of, check_axes, lines_of, points_of
from grader.judge.outcomes import CheckFailed

LINE = LineFacts("loss", np.array([[1.0, 2.0], [2.0, 1.5]]))
AXES = AxesFacts("epoch", "loss", "linear", "log", [LINE])
FIGURE = FigureFacts([AXES], ["loss"], 1)
TWICE = FigureFacts([AXES, AXES], ["loss", "loss"], 2)


def with_axes(**changes: str) -> FigureFacts:
    return msgspec.structs.replace(FIGURE, axes=[msgspec.structs.replace(AXES, **changes)])


def test_axes_have_their_scales_labels_and_legend() -> None:
    check_axes(FIGURE, x_scale="linear", y_scale="log", legend=["loss"])
    check_axes(with_axes(x_label=""), labels=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_scale": "linear"}, r'The y axis is "linear".*: ax.set_yscale\("log"\)'),
        ({"x_label": " "}, r"The x axis has no label: ax.set_xlabel"),
    ],
)
def test_a_missing_part_is_reported_with_its_call(changes: dict[str, str], message: str) -> None:
    with pytest.raises(CheckFailed, match=message):
        check_axes(with_axes(**changes), y_scale="log")


def test_a_legend_names_every_line() -> None:
    with pytest.raises(CheckFailed, match="The legend does not name 'rate'"):
        check_axes(FIGURE, legend=["loss", "rate"])
    with pytest.raises(CheckFailed, match="There is no legend"):
        check_axes(msgspec.structs.replace(FIGURE, legends=0), legend=["loss"])


def test_a_figure_has_a_single_axes() -> None:
    with pytest.raises(CheckFailed, match="The figure has 2 Axes"):
        axes_of(TWICE)


def test_a_line_is_found_by_its_label() -> None:
    (points,) = lines_of(FIGURE, ["loss"]).values()
    assert points.tolist() == [[1.0, 2.0], [2.0, 1.5]]
    with pytest.raises(CheckFailed, match="There is no line with the label 'rate', of 1"):
        lines_of(FIGURE, ["rate"])
    with pytest.raises(CheckFailed, match="2 lines with the label 'loss'"):
        lines_of(TWICE, ["loss"])


@pytest.mark.parametrize(
    "points", [None, [[1, 2]], np.ones(3), np.ones((2, 3)), np.array([["a", "b"]])]
)
def test_points_that_are_not_numbers_are_refused(points: object) -> None:
    with pytest.raises(CheckFailed):
        points_of(LineFacts("loss", points))


@pytest.mark.parametrize(
    "figure",
    [{}, {"axes": 1, "legend": [], "legends": 0}, {"axes": [], "legend": [3], "legends": 0}, True],
)
def test_a_report_of_another_shape_fails_the_test(figure: Any) -> None:
    with pytest.raises(CheckFailed, match="cannot be read"):
        shaped({"type": "Figure", "figure": figure}, Drawn)
