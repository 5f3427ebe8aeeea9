"""Laws of figures: their contents, and the state of pyplot after drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from grader.judge.checks.assertions import compare_named
from grader.judge.checks.comparison import Rule, is_ndarray
from grader.judge.checks.laws.facts import (
    AxesFacts,
    Drawn,
    FigureFacts,
    LineFacts,
    PyplotFacts,
    shaped,
    unreadable,
)
from grader.judge.checks.laws.observation import Target, name_of, shipped
from grader.judge.checks.wording import element
from grader.judge.outcomes import CheckFailed
from grader.judge.student import Student
from grader.judge.text import text
from grader.text import with_article

if TYPE_CHECKING:
    from torch import Tensor


def figure_of(student: Student, target: Target, *arguments: Any, **keywords: Any) -> FigureFacts:
    """Return the facts about the figure that the student's function draws."""
    drawn = shaped(shipped(student, "figure")(name_of(target), *arguments, **keywords), Drawn)
    if drawn.figure is None:
        returned = "None" if drawn.type == "NoneType" else with_article(element(drawn.type))
        words = "{call} should return a matplotlib Figure, but yours returned {returned}."
        raise CheckFailed(text(words, name_of(target), returned))
    return drawn.figure


def axes_of(figure: FigureFacts) -> AxesFacts:
    """Return the only Axes of a figure."""
    if len(figure.axes) != 1:
        count = len(figure.axes)
        raise CheckFailed(text("The figure has {count} Axes: draw everything in one.", count))
    return figure.axes[0]


def check_axes(
    figure: FigureFacts,
    *,
    x_scale: str | None = None,
    y_scale: str | None = None,
    labels: bool = True,
    legend: Sequence[str] = (),
) -> None:
    """Check that the Axes have these scales and labels, and that a legend names all of `legend`."""
    axes = axes_of(figure)
    for axis, actual, scale, label in (
        ("x", axes.x_scale, x_scale, axes.x_label),
        ("y", axes.y_scale, y_scale, axes.y_label),
    ):
        if scale is not None and actual != scale:
            how = f'ax.set_{axis}scale("{scale}")'
            words = "The {axis} axis is {actual}, but should be {scale}: {how}."
            raise CheckFailed(text(words, axis, element(actual), scale, how))
        if labels and not label.strip():
            raise CheckFailed(text("The {axis} axis has no label: ax.set_{axis}label.", axis))
    if not legend:
        return
    if figure.legends == 0:
        raise CheckFailed("There is no legend: call ax.legend() after drawing the lines.")
    for label in legend:
        if label not in figure.legend:
            how = "give each line its label, and make the legend after the lines"
            raise CheckFailed(text("The legend does not name {label!r}: {how}.", label, how))


def lines_of(figure: FigureFacts, labels: Sequence[str]) -> dict[str, Tensor]:
    """Return the points (n, 2) of each label's line, float64; there must be exactly one line for each."""
    lines = [line for axes in figure.axes for line in axes.lines]
    points: dict[str, Tensor] = {}
    for label in labels:
        own = [line for line in lines if line.label == label]
        if len(own) != 1:
            count = "no line" if not own else text("{count} lines", len(own))
            words = "There is {count} with the label {label!r}, of {all}: draw it as one line."
            raise CheckFailed(text(words, count, label, len(lines)))
        points[label] = points_of(own[0])
    return points


def points_of(line: LineFacts) -> Tensor:
    """Return the points (n, 2) of a line, float64."""
    import torch

    pairs = line.points
    if not (is_ndarray(pairs) and pairs.dtype.kind == "f" and pairs.shape[1:] == (2,)):
        raise unreadable()
    return torch.from_numpy(pairs.astype("float64"))


def check_leaves_pyplot(student: Student, target: Target, *arguments: Any, **keywords: Any) -> None:
    """Check that no window opens, no new figure stays in pyplot, and the caller's figures do not change."""
    report = shipped(student, "pyplot")(name_of(target), *arguments, **keywords)
    facts = shaped(report, PyplotFacts)
    before, after = facts.before, facts.after
    closed = [number for number in before.open if number not in after.open]
    if closed:
        own = "close your own figure (plt.close(figure)), not all or the current one"
        words = "{count} of the caller's {all} figures were closed: {own}."
        raise CheckFailed(text(words, len(closed), len(before.open), own))
    drawn = "The caller's current figure is drawn on or cleared: make your own figure."
    compare_named(
        after.contents,
        before.contents,
        Rule(exact=True),
        "the list of contents of the caller's figures",
        lambda: {drawn: after.contents},
    )
    if facts.returned_callers:
        raise CheckFailed("Your code returns the caller's figure: make your own.")
    left = [number for number in after.open if number not in before.open]
    if left:
        how = "close yours with plt.close(figure), or make it without pyplot"
        raise CheckFailed(
            text("{count} new figures are left open in pyplot: {how}.", len(left), how)
        )
    if facts.shown:
        raise CheckFailed(
            "The figure is shown: do not call show. Return it and let the caller decide."
        )
