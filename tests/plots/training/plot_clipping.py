"""The norms that train_step returned in a training with and without clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.2)
STEPS, ROWS, MAX_NORM = 80, 16, 1.0
OUTLIERS = (30, 55)  # the steps whose batches have targets 50 times as large

_Norms = Annotated[list[float], msgspec.Meta(max_length=100)]


class Data(msgspec.Struct):
    """The norm before clipping in each step, with max_norm and without."""

    clipped: _Norms
    unclipped: _Norms


def experiment(student: Any) -> dict[str, Any]:
    """The same small network twice, on the same batches, of which two are bad."""
    import math

    import torch
    from torch import nn

    def train(max_norm: float) -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
        sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        norms = []
        for step in range(STEPS):
            x = torch.randn(ROWS, 4)
            y = torch.sin(x.sum(1, keepdim=True)) * (50.0 if step in OUTLIERS else 1.0)
            norms.append(
                float(student.train_step(model, nn.functional.mse_loss, sgd, x, y, max_norm))
            )
        return norms

    return {"clipped": train(MAX_NORM), "unclipped": train(math.inf)}


def draw(figure: FigureBase, data: Data) -> None:
    """Two lines on a logarithmic axis, and the limit."""
    from grader.student.plots.style import COLORS

    axes = figure.subplots()
    axes.plot(data.unclipped, color=COLORS[1], label="max_norm=math.inf")
    axes.plot(data.clipped, color=COLORS[0], label=f"max_norm={MAX_NORM:g}")
    axes.axhline(MAX_NORM, color="gray", linestyle="--", linewidth=1, label="max_norm")
    axes.set(
        yscale="log",
        xlabel="step",
        ylabel="norm before clipping",
        title="After a bad batch the clipped training goes on as before",
    )
    axes.legend()
