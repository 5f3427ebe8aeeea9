"""Where the elements of a matrix and of its transpose lie in their one storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

SIZE = (7.6, 4.4)
ROWS, COLUMNS = 4, 6

_Row = Annotated[list[int], msgspec.Meta(min_length=1, max_length=COLUMNS)]
_Table = Annotated[list[_Row], msgspec.Meta(min_length=1, max_length=COLUMNS)]


class Data(msgspec.Struct):
    """The position of each element in the storage, and the strides as contiguous_strides has them."""

    matrix: _Table
    transpose: _Table
    strides: Annotated[list[int], msgspec.Meta(max_length=2)] | None


def experiment(student: Any) -> dict[str, Any]:
    """Ask for the position of every element of a matrix, and of its transpose."""
    import torch

    x = torch.zeros(ROWS, COLUMNS)

    def table(view: torch.Tensor) -> list[list[int]]:
        rows, columns = view.shape
        return [
            [int(student.storage_index(view, (i, j))) for j in range(columns)] for i in range(rows)
        ]

    try:
        strides = [int(stride) for stride in student.contiguous_strides((ROWS, COLUMNS))]
    except NotImplementedError:
        strides = None
    return {"matrix": table(x), "transpose": table(x.t()), "strides": strides}


def draw(figure: FigureBase, data: Data) -> None:
    """Two heat maps on one scale, with the positions written into them."""
    matrix, transpose = figure.subplots(1, 2, width_ratios=[COLUMNS, ROWS])
    strides = "" if data.strides is None else f", strides {tuple(data.strides)}"
    _draw_table(matrix, data.matrix, f"x of shape ({ROWS}, {COLUMNS}){strides}")
    _draw_table(transpose, data.transpose, f"x.t() of shape ({COLUMNS}, {ROWS})")


def _draw_table(axes: Axes, table: list[list[int]], title: str) -> None:
    last = ROWS * COLUMNS - 1
    axes.imshow(table, cmap="viridis", vmin=0, vmax=last, interpolation="nearest")
    for i, row in enumerate(table):
        for j, position in enumerate(row):
            color = "white" if position < last / 2 else "black"
            axes.text(j, i, str(position), ha="center", va="center", color=color)
    axes.grid(visible=False)
    axes.set_xticks(range(max(map(len, table))))
    axes.set_yticks(range(len(table)))
    axes.set(xlabel="column", ylabel="row", title=title)
