"""Laws about a figure, by the facts of it that a sandbox reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from grader.judge.checks.laws.figures import axes_of, check_axes, lines_of, points_of
from grader.judge.outcomes import CheckFailed


def figure(**changes: Any) -> dict[str, Any]:
    line = {"label": "loss", "points": np.array([[1.0, 2.0], [2.0, 1.5]])}
    axes: dict[str, Any] = {
        "x scale": "linear",
        "y scale": "log",
        "x label": "epoch",
        "y label": "loss",
    }
    axes |= {"lines": [line], **changes}
    return {"axes": [axes], "legends": 1, "legend": ["loss"]}


def test_axes_have_their_scales_labels_and_legend() -> None:
    check_axes(figure(), x_scale="linear", y_scale="log", legend=["loss"])
    check_axes(figure(**{"x label": ""}), labels=False)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"y scale": "linear"}, r'The y axis is "linear".*: ax.set_yscale\("log"\)'),
        ({"x label": " "}, r"The x axis has no label: ax.set_xlabel"),
    ],
)
def test_what_is_missing_is_told_with_its_call(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(CheckFailed, match=told):
        check_axes(figure(**changes), y_scale="log")


def test_a_legend_names_every_line() -> None:
    with pytest.raises(CheckFailed, match="The legend does not name 'rate'"):
        check_axes(figure(), legend=["loss", "rate"])
    with pytest.raises(CheckFailed, match="There is no legend"):
        check_axes({**figure(), "legends": 0}, legend=["loss"])


def test_all_of_a_figure_is_in_one_axes() -> None:
    twice = figure()["axes"] * 2
    with pytest.raises(CheckFailed, match="The figure has 2 Axes"):
        axes_of({"axes": twice})


def test_a_line_is_found_by_its_label() -> None:
    (points,) = lines_of(figure(), ["loss"]).values()
    assert points.tolist() == [[1.0, 2.0], [2.0, 1.5]]
    with pytest.raises(CheckFailed, match="There is no line with the label 'rate', of 1"):
        lines_of(figure(), ["rate"])
    two = {"axes": figure()["axes"] * 2}
    with pytest.raises(CheckFailed, match="2 lines with the label 'loss'"):
        lines_of(two, ["loss"])


@pytest.mark.parametrize(
    "points", [None, [[1, 2]], np.ones(3), np.ones((2, 3)), np.array([["a", "b"]])]
)
def test_points_that_are_no_numbers_are_not_read(points: object) -> None:
    with pytest.raises(CheckFailed):
        points_of({"points": points})
