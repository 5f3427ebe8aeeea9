"""Bars of the operators of a small network: of a forward pass, and of forward and backward together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.6)
SHOWN = 14

_Counts = Annotated[dict[str, int], msgspec.Meta(max_length=200)]


class Data(msgspec.Struct):
    """The number of calls of each operator."""

    forward: _Counts
    both: _Counts


def experiment(student: Any) -> dict[str, Any]:
    """Count the operators of a network of three linear layers."""
    import torch
    from torch import nn

    model = nn.Sequential(
        nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)
    )
    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))

    def both() -> None:
        model(x).square().mean().backward()

    counts = []
    for work in (lambda: model(x).square().mean(), both):
        _, calls = student.log_operators(work)
        counts.append(dict(student.count_operators(calls)))
    return {"forward": counts[0], "both": counts[1]}


def draw(figure: FigureBase, data: Data) -> None:
    """Two axes with a bar for each operator, the same scale for both."""
    from grader.student.plots.style import COLORS

    parts = {"forward": data.forward, "forward and backward": data.both}
    axes = figure.subplots(1, 2, sharex=True)
    for part, (title, counts), color in zip(axes, parts.items(), COLORS, strict=False):
        names = list(counts)[:SHOWN]
        part.barh(names, [counts[name] for name in names], color=color)
        part.invert_yaxis()
        part.set(title=title, xlabel="calls")
        part.tick_params(axis="y", labelsize=7)
        part.grid(visible=False, axis="y")
    figure.suptitle("The operators that a network of three layers runs")
