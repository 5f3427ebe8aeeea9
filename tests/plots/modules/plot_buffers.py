"""What the layer keeps over forty batches: the mean of each, and the mean of all rows so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.2, 3.8)
BATCHES = 40
MEAN = 2.0

_Line = Annotated[list[float], msgspec.Meta(min_length=BATCHES, max_length=BATCHES)]


class Data(msgspec.Struct):
    """After each batch: batch_mean and running_mean of the one feature, and how many rows it had."""

    batch: _Line
    running: _Line
    rows: Annotated[list[int], msgspec.Meta(min_length=BATCHES, max_length=BATCHES)]


def experiment(student: Any) -> dict[str, Any]:
    """Rows around 2 in batches of 2 to 16."""
    import torch

    layer = student.RunningCenter(1)
    generator = torch.Generator().manual_seed(0)
    data: dict[str, list[Any]] = {"batch": [], "running": [], "rows": []}
    for _ in range(BATCHES):
        rows = int(torch.randint(2, 17, (), generator=generator))
        layer(MEAN + 2 * torch.randn(rows, 1, generator=generator))
        data["batch"].append(float(layer.batch_mean))
        data["running"].append(float(layer.running_mean))
        data["rows"].append(rows)
    return data


def draw(figure: FigureBase, data: Data) -> None:
    """Batch means as dots, larger for larger batches, and the running mean as a line."""
    from grader.student.plots.style import BLUE, GRAY, VERMILION

    axes = figure.subplots()
    steps = range(1, BATCHES + 1)
    axes.axhline(MEAN, color=GRAY, linewidth=1, linestyle="--", label="mean of the distribution")
    sizes = [4 * rows for rows in data.rows]
    axes.scatter(steps, data.batch, s=sizes, color=VERMILION, label="batch_mean (area: rows)")
    axes.plot(steps, data.running, color=BLUE, label="running_mean")
    axes.set(xlabel="batch", ylabel="mean", title="Each batch has its mean; all rows have one")
    axes.legend()
