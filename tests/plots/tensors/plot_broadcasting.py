"""The errors that a loss of shapes (N,) and (N, 1) adds up, beside those that were meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

SIZE = (7.6, 4.6)
N = 8

_Row = Annotated[list[float], msgspec.Meta(min_length=N, max_length=N)]


class Data(msgspec.Struct):
    """All errors, those meant, the shape that is foretold, and whether the loss refuses."""

    matrix: Annotated[list[_Row], msgspec.Meta(min_length=N, max_length=N)]
    meant: _Row
    shape: Annotated[list[int], msgspec.Meta(max_length=4)] | None
    refused: bool


def experiment(student: Any) -> dict[str, Any]:
    """Predictions close to their targets, as a vector and as a column."""
    import torch

    target = torch.linspace(-1, 1, N)
    prediction = target + 0.1 * torch.randn(N)
    column = target.unsqueeze(1)
    try:
        student.mse_loss(prediction, column)
        refused = False
    except NotImplementedError:
        raise
    except ValueError:
        refused = True
    try:
        shape = [int(size) for size in student.broadcast_shape((N,), (N, 1))]
    except NotImplementedError:
        shape = None
    return {
        "matrix": ((prediction - column) ** 2).tolist(),
        "meant": student.mse_loss(prediction, target, "none").tolist(),
        "shape": shape,
        "refused": refused,
    }


def draw(figure: FigureBase, data: Data) -> None:
    """The matrix on the left, its diagonal, which was meant, on the right."""
    matrix, meant = figure.subplots(1, 2, width_ratios=[N, 2.2])
    largest = max(map(max, data.matrix))
    shape = "" if data.shape is None else f", of shape {tuple(data.shape)}"
    mean = sum(map(sum, data.matrix)) / N**2
    _draw_errors(matrix, data.matrix, largest, f"({N},) against ({N}, 1){shape}: mean {mean:.2f}")
    matrix.set(xlabel="prediction", ylabel="target", xticks=range(N))
    _draw_errors(
        meant, [[error] for error in data.meant], largest, f"meant: {sum(data.meant) / N:.2f}"
    )
    verdict = "refuses" if data.refused else "does not refuse"
    meant.set(xticks=[], xlabel=f"mse_loss {verdict}\nthe pair on the left")


def _draw_errors(axes: Axes, errors: list[list[float]], largest: float, title: str) -> None:
    axes.imshow(errors, cmap="viridis", vmin=0, vmax=largest, interpolation="nearest")
    for i, row in enumerate(errors):
        for j, error in enumerate(row):
            color = "white" if error < largest / 2 else "black"
            axes.text(j, i, f"{error:.2f}", ha="center", va="center", color=color, fontsize=8)
    axes.grid(visible=False)
    axes.set(yticks=range(N), title=title)
