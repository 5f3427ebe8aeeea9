"""How much the output depends on the size of the batches, in training and in evaluation mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.2)
ROWS = 256
SIZES = (2, 4, 8, 16, 32, 64, 128, 256)

_Gaps = Annotated[list[float], msgspec.Meta(min_length=len(SIZES), max_length=len(SIZES))]


class Data(msgspec.Struct):
    """The gap for each size of the batches, in each mode."""

    training: _Gaps
    evaluation: _Gaps


def experiment(student: Any) -> dict[str, Any]:
    """Two layers with the student's norm between them, on random rows."""
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), student.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 4))
    with torch.no_grad():
        for parameter in model[0].parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        for parameter in model[3].parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)
    x = torch.randn(ROWS, 8, generator=generator)

    def gaps(training: bool) -> list[float]:
        model.train(training)
        return [float(student.batching_gap(model, x, size)) for size in SIZES]

    return {"training": gaps(True), "evaluation": gaps(False)}


def draw(figure: FigureBase, data: Data) -> None:
    """One line for each mode."""
    from grader.student.plots.style import COLORS

    axes = figure.subplots()
    for mode, gaps, color in zip(
        ("training", "evaluation"), (data.training, data.evaluation), COLORS, strict=False
    ):
        axes.plot(SIZES, gaps, marker="o", label=f"{mode} mode", color=color)
    axes.set_xscale("log", base=2)
    axes.set(
        xlabel="rows in a batch",
        ylabel="batching gap",
        title=f"What changes where {ROWS} rows come in smaller batches",
    )
    axes.legend()
