"""Laws of figures: their contents, and the state in which drawing leaves pyplot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from grader.judge.checks.assertions import UNREADABLE, compare_named, entry
from grader.judge.checks.comparison import Rule, is_ndarray
from grader.judge.checks.laws.observation import Target, name_of, same, shipped
from grader.judge.checks.wording import element
from grader.judge.outcomes import CheckFailed
from grader.judge.student import Student
from grader.judge.text import text
from grader.text import with_article

if TYPE_CHECKING:
    from torch import Tensor


def figure_of(student: Student, target: Target, *arguments: Any, **keywords: Any) -> Any:
    """Return the figure that the student's function draws, as a dict of plain data.

    It has `axes` (each with `title`, `x label`, `y label`, `x scale`, `y scale`, `lines` with their `label` and
    `points` (n, 2), `bars` and `images`), `legend` (its texts) and `legends` (their number).
    """
    seen = shipped(student, "figure")(name_of(target), *arguments, **keywords)
    if entry(seen, "figure", default=False) is not True:
        kind = str(entry(seen, "type", default="something unreadable"))
        returned = "None" if kind == "NoneType" else with_article(element(kind))
        words = "{call} should return a matplotlib Figure, yours returned {returned}."
        raise CheckFailed(text(words, name_of(target), returned))
    return seen


def axes_of(figure: Any) -> Any:
    """Return the only Axes of a figure."""
    axes = entry(figure, "axes", kind=list)
    if len(axes) != 1:
        raise CheckFailed(text("The figure has {count} Axes; all of it belongs in one.", len(axes)))
    return axes[0]


def check_axes(
    figure: Any,
    *,
    x_scale: str | None = None,
    y_scale: str | None = None,
    labels: bool = True,
    legend: Sequence[str] = (),
) -> None:
    """Check that the Axes have these scales and labels, and that a legend names all of `legend`."""
    axes = axes_of(figure)
    for axis, scale in (("x", x_scale), ("y", y_scale)):
        actual = str(entry(axes, f"{axis} scale"))
        if scale is not None and actual != scale:
            how = f'ax.set_{axis}scale("{scale}")'
            words = "The {axis} axis is {actual}, it should be {scale}: {how}."
            raise CheckFailed(text(words, axis, element(actual), scale, how))
        if labels and not str(entry(axes, f"{axis} label")).strip():
            raise CheckFailed(text("The {axis} axis has no label: ax.set_{axis}label.", axis))
    if not legend:
        return
    if same(entry(figure, "legends"), 0):
        raise CheckFailed("There is no legend: call ax.legend() when the lines are drawn.")
    named = [str(label) for label in entry(figure, "legend", kind=list)]
    for label in legend:
        if label not in named:
            how = "give each line its label, and make the legend after the lines"
            raise CheckFailed(text("The legend does not name {label!r}: {how}.", label, how))


def lines_of(figure: Any, labels: Sequence[str]) -> dict[str, Any]:
    """Return the points (n, 2) of each label's line, float64; there must be exactly one line for each."""
    lines = [
        line
        for axes in entry(figure, "axes", kind=list)
        for line in entry(axes, "lines", kind=list)
    ]
    points: dict[str, Any] = {}
    for label in labels:
        own = [line for line in lines if same(entry(line, "label"), label)]
        if len(own) != 1:
            count = "no line" if not own else text("{count} lines", len(own))
            words = "There is {count} with the label {label!r}, of {all}: draw it as one line."
            raise CheckFailed(text(words, count, label, len(lines)))
        points[label] = points_of(own[0])
    return points


def points_of(line: Any) -> Tensor:
    """Return the points (n, 2) of a line, float64."""
    import torch

    pairs = entry(line, "points")
    if not (is_ndarray(pairs) and pairs.dtype.kind == "f" and pairs.shape[1:] == (2,)):
        raise CheckFailed(UNREADABLE)
    return torch.from_numpy(pairs.astype("float64"))


def check_leaves_pyplot(student: Student, target: Target, *arguments: Any, **keywords: Any) -> None:
    """Check that no window opens, no new figure stays in pyplot, and the caller's figures do not change."""
    seen = shipped(student, "pyplot")(name_of(target), *arguments, **keywords)
    before, after = entry(seen, "before"), entry(seen, "after")
    old, new = ([str(n) for n in entry(state, "open", kind=list)] for state in (before, after))
    closed = [number for number in old if number not in new]
    if closed:
        own = "close your own figure (plt.close(figure)), not all or the current one"
        words = "{count} of the caller's {all} figures were closed: {own}."
        raise CheckFailed(text(words, len(closed), len(old), own))
    drawn = "The caller's current figure is drawn on or cleared: make a figure of your own."
    compare_named(
        entry(after, "contents"),
        entry(before, "contents"),
        Rule(exact=True),
        "the list of what the caller's figures contain",
        lambda: {drawn: entry(after, "contents")},
    )
    if any(returned is not False for returned in entry(after, "callers", kind=list)):
        raise CheckFailed("The caller's figure is returned: make a figure of your own.")
    left = [number for number in new if number not in old]
    if left:
        how = "close yours with plt.close(figure), or make it without pyplot"
        raise CheckFailed(
            text("{count} new figures are left open in pyplot: {how}.", len(left), how)
        )
    if not same(entry(seen, "shown"), 0):
        raise CheckFailed("The figure is shown: call no show, return it and let the caller decide.")
