"""The objective over the ratio, for a good and a bad completion, and the estimate of KL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 5.6)
POINTS, LOW, HIGH = 161, 0.4, 1.8
SIGNS, CLIPS = (1.0, -1.0), (0.1, 0.2, 0.4)

_Line = Annotated[list[float], msgspec.Meta(min_length=POINTS, max_length=POINTS)]


class Data(msgspec.Struct):
    """For each sign and clip the objective, and the estimate of KL."""

    objectives: Annotated[list[_Line], msgspec.Meta(max_length=len(SIGNS) * len(CLIPS))]
    estimate: _Line


def experiment(student: Any) -> dict[str, Any]:
    """Tokens of every ratio, of one completion."""
    import torch

    new, old = torch.linspace(LOW, HIGH, POINTS).log()[None], torch.zeros(1, POINTS)
    objectives = [
        student.clipped_objective(new, old, torch.tensor([sign]), clip)[0].tolist()
        for sign in SIGNS
        for clip in CLIPS
    ]
    return {"objectives": objectives, "estimate": student.kl_estimate(new, old)[0].tolist()}


def draw(figure: FigureBase, data: Data) -> None:
    """An objective on each side, the estimate below."""
    from grader.student.plots.style import COLORS

    ratios = [LOW + (HIGH - LOW) * i / (POINTS - 1) for i in range(POINTS)]
    grid = figure.add_gridspec(2, 2)
    for i, sign in enumerate(SIGNS):
        axes = figure.add_subplot(grid[0, i])
        lines = data.objectives[i * len(CLIPS) : (i + 1) * len(CLIPS)]
        for clip, line, color in zip(CLIPS, lines, COLORS, strict=False):
            axes.plot(ratios, line, color=color, label=f"clip = {clip}")
        axes.set(xlabel="ratio", ylabel="objective", title=f"Advantage {sign:g}")
        axes.legend()
    axes = figure.add_subplot(grid[1, :])
    axes.plot(ratios, data.estimate, color=COLORS[0])
    axes.set(
        xlabel="p / p of the reference",
        ylabel="exp(d) - d - 1",
        title="The estimate of KL is never negative",
    )
