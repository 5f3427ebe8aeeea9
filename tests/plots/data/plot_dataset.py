"""The classes in the first batches of a sorted table, in its own order and from the student's loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

SIZE = (7.4, 5.2)
ROWS, CLASSES, BATCH, SHOWN = 240, 3, 16, 10

_Shares = Annotated[list[list[int]], msgspec.Meta(max_length=SHOWN)]


class Data(msgspec.Struct):
    """How many rows of each class the first batches have: in the table's order, and of the student's."""

    sorted: _Shares
    shuffled: _Shares


def experiment(student: Any) -> dict[str, Any]:
    """The first batches of a table that is sorted by class."""
    import itertools

    import numpy as np

    y = np.repeat(np.arange(CLASSES), ROWS // CLASSES)
    X = np.random.default_rng(0).normal(size=(ROWS, 2)) + y[:, None]
    loader, _, _ = student.make_loaders(X, y, BATCH, 24, 24)

    def shares(batches: Any) -> list[list[int]]:
        return [[int((batch == c).sum()) for c in range(CLASSES)] for batch in batches]

    table = [y[i : i + BATCH] for i in range(0, ROWS, BATCH)][:SHOWN]
    first = [targets for _, targets in itertools.islice(loader, SHOWN)]
    return {"sorted": shares(table), "shuffled": shares(first)}


def draw(figure: FigureBase, data: Data) -> None:
    """Stacked bars, one for each batch, in two rows."""
    above, below = figure.subplots(2, 1, sharex=True, sharey=True)
    _draw_shares(above, data.sorted, "not shuffled: class after class")
    _draw_shares(below, data.shuffled, "the training loader")
    above.legend(loc="upper left", bbox_to_anchor=(1.01, 1))
    below.set(xlabel="batch", xticks=range(1, SHOWN + 1))


def _draw_shares(axes: Axes, batches: list[list[int]], title: str) -> None:
    from grader.student.plots.style import COLORS

    bottom = [0] * len(batches)
    for number in range(CLASSES):
        rows = [batch[number] if number < len(batch) else 0 for batch in batches]
        places = range(1, len(rows) + 1)
        axes.bar(places, rows, bottom=bottom, color=COLORS[number], label=f"class {number}")
        bottom = [low + high for low, high in zip(bottom, rows, strict=True)]
    axes.grid(visible=False, axis="x")
    axes.set(ylabel="rows", title=title)
