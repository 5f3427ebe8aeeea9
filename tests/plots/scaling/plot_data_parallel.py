"""Throughput and scaling efficiency for one rank and more, and what the overheads of a step are.

Real measurements, but short ones: of this machine, at this moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

SIZE = (7.4, 6.4)
MOST_RANKS = 4
BATCH = 512
FEATURES = 128
# For the throughputs; the overheads are measured once. An experiment has a quarter of the exercise's time.
SECONDS = 1.0
_Positive = Annotated[float, msgspec.Meta(ge=0)]
_Name = Annotated[str, msgspec.Meta(max_length=40)]


class Data(msgspec.Struct):
    """Samples per second and efficiency by world size, seconds a call by overhead (None: unwritten)."""

    throughputs: Annotated[dict[int, _Positive], msgspec.Meta(min_length=1, max_length=8)]
    efficiencies: Annotated[dict[int, _Positive], msgspec.Meta(max_length=8)] | None
    overheads: Annotated[dict[_Name, _Positive], msgspec.Meta(max_length=8)] | None
    cores: int


def experiment(student: Any) -> dict[str, Any]:
    """A network of three layers; as many ranks as there are cores to compute on, four at most."""
    import os

    import torch
    from torch import nn

    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    sizes = [size for size in (1, 2, MOST_RANKS) if size <= max(cores, 2)]

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
    throughputs = _best_of_runs(
        lambda: student.benchmark(build, inputs, targets, nn.MSELoss(), sizes, steps=12, warmup=3)
    )
    return {
        "throughputs": throughputs,
        "efficiencies": _unless_unwritten(lambda: student.scaling_efficiency(throughputs)),
        "overheads": _unless_unwritten(
            lambda: student.measure_overheads(build(), inputs, sizes[-1])
        ),
        "cores": cores,
    }


def _best_of_runs(measure: Any) -> dict[int, float]:
    """The best of a few short runs for each world size: what disturbs a measurement makes it slower."""
    import time

    begin, best = time.monotonic(), measure()
    while time.monotonic() - begin < SECONDS:
        best = {size: max(best[size], found) for size, found in measure().items()}
    return dict(best)


def _unless_unwritten(call: Any) -> Any:
    try:
        return call()
    except NotImplementedError:
        return None


def draw(figure: FigureBase, data: Data) -> None:
    """Throughput and efficiency beside each other, the overheads below."""
    above, below = figure.subfigures(2, 1, height_ratios=[1.5, 1])  # type: ignore[misc]  # typed as if it were one
    left, right = above.subplots(1, 2)
    sizes = sorted(data.throughputs)
    _draw_throughput(left, sizes, data.throughputs)
    _draw_efficiency(right, sizes, data.efficiencies)
    _draw_overheads(below.subplots(), data.overheads, sizes[-1])
    figure.supxlabel(
        f"The best of a second or two on this machine ({data.cores} cores): another run, other numbers.",
        fontsize=8.5,
        color="#555555",
    )


def _draw_throughput(axes: Axes, sizes: list[int], throughputs: dict[int, float]) -> None:
    from grader.student.plots.style import BLUE, GRAY

    places = range(len(sizes))
    bars = axes.bar(
        places, [throughputs[size] for size in sizes], width=0.6, color=BLUE, label="measured"
    )
    axes.bar_label(bars, fmt="{:,.0f}", fontsize=8.5, padding=2)
    if 1 in throughputs:
        perfect = [size * throughputs[1] for size in sizes]
        axes.plot(
            places, perfect, "D--", color=GRAY, markersize=5, linewidth=1, label="perfect scaling"
        )
    axes.grid(visible=False, axis="x")
    axes.set(xlabel="ranks", ylabel="samples per second", title="Throughput")
    axes.set_xticks(list(places), [str(size) for size in sizes])
    axes.margins(y=0.22)
    axes.legend(loc="upper left")


def _draw_efficiency(axes: Axes, sizes: list[int], efficiencies: dict[int, float] | None) -> None:
    from grader.student.plots.style import GRAY, VERMILION

    axes.set_title("Scaling efficiency")
    if efficiencies is None:
        axes.set_axis_off()
        axes.text(0, 0.5, "scaling_efficiency is not written yet", transform=axes.transAxes)
        return
    percent = [100 * efficiencies.get(size, float("nan")) for size in sizes]
    axes.axhline(100, color=GRAY, linestyle="--", linewidth=1)
    axes.plot(range(len(sizes)), percent, "o-", color=VERMILION)
    for place, share in enumerate(percent):
        axes.annotate(
            f"{share:.0f} %",
            (place, share),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
        )
    axes.set(xlabel="ranks", ylabel="% of perfect scaling", xlim=(-0.5, len(sizes) - 0.5))
    axes.set_ylim(0, max(125.0, *(share * 1.15 for share in percent if share < 1e4)))
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])


def _draw_overheads(axes: Axes, overheads: dict[str, float] | None, ranks: int) -> None:
    from grader.student.plots.style import COLORS

    if overheads is None:
        axes.set_axis_off()
        axes.text(0, 0.5, "measure_overheads is not written yet", transform=axes.transAxes)
        return
    names = list(overheads)
    milliseconds = [1000 * overheads[name] for name in names]
    total = sum(milliseconds) or 1.0
    bars = axes.barh(range(len(names)), milliseconds, height=0.6, color=COLORS[: len(names)])
    labels = [f"{each:.3g} ms, {100 * each / total:.0f} %" for each in milliseconds]
    axes.bar_label(bars, labels, padding=4, fontsize=8.5)
    axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.25)
    axes.set(
        xlabel="milliseconds a call, slowest rank",
        title=f"What a step costs beside computing, {ranks} ranks",
    )
