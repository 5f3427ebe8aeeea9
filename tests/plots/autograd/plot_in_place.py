"""A noisy series and its exponential averages at three momenta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.2, 4.4)
STEPS = 200
MOMENTA = (0.5, 0.9, 0.98)

_Line = Annotated[list[float], msgspec.Meta(min_length=STEPS, max_length=STEPS)]


class Data(msgspec.Struct):
    """The series, and its average at each momentum."""

    series: _Line
    averages: Annotated[list[_Line], msgspec.Meta(min_length=len(MOMENTA), max_length=len(MOMENTA))]


def experiment(student: Any) -> dict[str, Any]:
    """Average a falling series with noise, as a loss over the steps of a training."""
    import torch

    generator = torch.Generator().manual_seed(0)
    steps = torch.arange(STEPS, dtype=torch.float64)
    noise = torch.randn(STEPS, generator=generator, dtype=torch.float64)
    series = 2 * torch.exp(-steps / 60) + 0.25 * noise
    averages = [student.exponential_average(series.clone(), m).tolist() for m in MOMENTA]
    return {"series": series.tolist(), "averages": averages}


def draw(figure: FigureBase, data: Data) -> None:
    """The series as points, the averages as lines: the smoother, the later."""
    from grader.student.plots.style import BLUE, GRAY, GREEN, VERMILION

    axes = figure.subplots()
    axes.plot(range(STEPS), data.series, ".", color=GRAY, markersize=3, alpha=0.7, label="series")
    for momentum, average, color in zip(
        MOMENTA, data.averages, (GREEN, BLUE, VERMILION), strict=True
    ):
        axes.plot(range(STEPS), average, color=color, label=f"momentum {momentum:g}")
    axes.set(xlabel="step", ylabel="value", title="Exponential averages of one noisy series")
    axes.legend()
