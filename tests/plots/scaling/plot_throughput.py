"""Throughput and scaling efficiency for one rank and more, and what the overheads of a step are.

Real measurements, but short ones, of a machine that does other things, too: several runs, in turn with the
reference's, and beside their median how far apart they are.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

SIZE = (7.4, 6.6)
RUNS = 5
MOST_RANKS = 4
BATCH = 512
FEATURES = 128
# How far from the median's place the points of the runs begin.
_BESIDE = 0.12
_Positive = Annotated[float, msgspec.Meta(ge=0)]
_Name = Annotated[str, msgspec.Meta(max_length=40)]


class Data(msgspec.Struct):
    """Samples per second and efficiency by world size, seconds a call by overhead (None: unwritten)."""

    throughputs: Annotated[dict[int, _Positive], msgspec.Meta(min_length=1, max_length=8)]
    efficiencies: Annotated[dict[int, _Positive], msgspec.Meta(max_length=8)] | None
    overheads: Annotated[dict[_Name, _Positive], msgspec.Meta(max_length=8)] | None


def experiment(student: Any) -> dict[str, Any]:
    """A network of three layers; as many ranks as there are processors to use, four at most."""
    import os

    import torch
    from torch import nn

    usable = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    sizes = [size for size in (1, 2, MOST_RANKS) if size <= max(usable, 2)]

    def build() -> nn.Module:
        hidden = 2 * FEATURES
        return nn.Sequential(
            nn.Linear(FEATURES, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 1),
        )

    inputs, targets = torch.randn(BATCH, FEATURES), torch.randn(BATCH, 1)
    throughputs = dict(
        student.benchmark(build, inputs, targets, nn.MSELoss(), sizes, steps=12, warmup=3)
    )
    return {
        "throughputs": throughputs,
        "efficiencies": _unless_unwritten(lambda: student.scaling_efficiency(throughputs)),
        "overheads": _unless_unwritten(
            lambda: student.measure_overheads(build(), inputs, sizes[-1])
        ),
    }


def _unless_unwritten(call: Any) -> Any:
    try:
        return call()
    except NotImplementedError:
        return None


def draw(figure: FigureBase, runs: Sequence[Data]) -> None:
    """Throughput and efficiency beside each other, the overheads below."""
    from grader.student.plots.style import CAPTION, machine_words

    above, below = figure.subfigures(2, 1, height_ratios=[1.5, 1])  # type: ignore[misc]  # typed as if it were one
    left, right = above.subplots(1, 2)
    sizes = sorted(runs[0].throughputs)
    _draw_throughput(left, sizes, [run.throughputs for run in runs])
    _draw_efficiency(right, sizes, [run.efficiencies or {} for run in runs])
    _draw_overheads(below.subplots(), [run.overheads or {} for run in runs], sizes[-1])
    spread = (
        "Bars and large points: the median of {} runs; small points: each run; lines: their range."
    )
    once = "One run: on a machine with time to spare there are more, and their spread."
    words = spread.format(len(runs)) if len(runs) > 1 else once
    figure.supxlabel(f"{words}\nMeasured on {machine_words()}.", **CAPTION)


def _draw_throughput(axes: Axes, sizes: list[int], runs: list[dict[int, float]]) -> None:
    from matplotlib.ticker import StrMethodFormatter

    from grader.student.plots.style import GRAY, SKY

    measured = [_of(runs, size) for size in sizes]
    medians = [statistics.median(values) for values in measured]
    places = range(len(sizes))
    axes.bar(places, medians, width=0.6, color=SKY, label="measured")
    if sizes[0] == 1:
        perfect = [size * medians[0] for size in sizes]
        axes.plot(
            places, perfect, "D--", color=GRAY, markersize=4, linewidth=1, label="perfect scaling"
        )
    for place, values in zip(places, measured, strict=True):
        _draw_spread(axes, place, values, "#222222")
    axes.grid(visible=False, axis="x")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set(ylabel="samples per second", title="Throughput", xlim=(-0.6, len(sizes) - 0.4))
    axes.set_ylim(bottom=0)
    labels = [f"{_ranks(size)}\n{median:,.0f}" for size, median in zip(sizes, medians, strict=True)]
    axes.set_xticks(list(places), labels)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.14), ncols=2, borderaxespad=0)


def _draw_efficiency(axes: Axes, sizes: list[int], runs: list[dict[int, float]]) -> None:
    from grader.student.plots.style import GRAY, VERMILION

    axes.set_title("Scaling efficiency")
    if not any(runs):
        axes.set_axis_off()
        axes.text(0, 0.5, "scaling_efficiency is not written yet", transform=axes.transAxes)
        return
    percent = [[100 * value for value in _of(runs, size)] for size in sizes]
    axes.axhline(100, color=GRAY, linestyle="--", linewidth=1)
    labels = []
    for place, (size, values) in enumerate(zip(sizes, percent, strict=True)):
        median = statistics.median(values)
        axes.plot(place, median, "o", color=VERMILION, markersize=8)
        _draw_spread(axes, place, values, VERMILION)
        labels.append(f"{_ranks(size)}\n{median:.0f} %{_range(values, '.0f')}")
    axes.set(ylabel="% of perfect scaling", xlim=(-0.5, len(sizes) - 0.5))
    axes.set_ylim(0, max(125.0, *(1.1 * value for row in percent for value in row if value < 1e4)))
    axes.grid(visible=False, axis="x")
    axes.set_xticks(range(len(sizes)), labels)


def _draw_overheads(axes: Axes, runs: list[dict[str, float]], ranks: int) -> None:
    from grader.student.plots.style import COLORS

    if not any(runs):
        axes.set_axis_off()
        axes.text(0, 0.5, "measure_overheads is not written yet", transform=axes.transAxes)
        return
    labels = []
    for place, (name, color) in enumerate(zip(runs[0], COLORS, strict=False)):
        values = [1000 * seconds for seconds in _of(runs, name)]
        median = statistics.median(values)
        axes.barh(place, median, height=0.6, color=color)
        _draw_spread(axes, place, values, "#222222", across=True)
        words = name.replace("_", " ")
        labels.append(f"{words}\n{median:.3g} ms{_range(values, '.3g')}")
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(left=0)
    axes.set(
        xlabel="milliseconds a call, slowest rank",
        title=f"What a step costs beside computing, {_ranks(ranks)}",
    )


def _draw_spread(
    axes: Axes, place: int, values: list[float], color: str, *, across: bool = False
) -> None:
    """A line from the lowest to the highest, and beside it a point for each."""
    step = 2 * _BESIDE / max(len(values) - 1, 1)
    beside = [place - _BESIDE + step * number for number in range(len(values))]
    line, ends = [place, place], [min(values), max(values)]
    looks: dict[str, Any] = {"color": color, "linewidth": 1.2}
    points: dict[str, Any] = {
        "color": color,
        "markersize": 4,
        "markeredgecolor": "white",
        "markeredgewidth": 0.4,
    }
    if across:
        axes.plot(ends, line, "-", **looks)
        axes.plot(values, beside, "o", **points)
    else:
        axes.plot(line, ends, "-", **looks)
        axes.plot(beside, values, "o", **points)


def _of(runs: list[dict[Any, float]], key: int | str) -> list[float]:
    """The value of each run that has one."""
    return [run[key] for run in runs if key in run] or [math.nan]


def _range(values: list[float], digits: str) -> str:
    """The lowest and the highest, behind their median, if they are not the same."""
    low, high = f"{min(values):{digits}}", f"{max(values):{digits}}"
    return f" ({low} to {high})" if low != high else ""


def _ranks(size: int) -> str:
    return f"{size} rank" if size == 1 else f"{size} ranks"
