"""The look of all pictures: colors that everyone can distinguish (Okabe and Ito), settings, axes, captions."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader.text import clean, counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import SubFigure

BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"
VERMILION, SKY, PURPLE, GRAY = "#D55E00", "#56B4E9", "#CC79A7", "#707070"
COLORS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)

# For the `bbox` of a text among curves, so that no grid line crosses its words.
GROUND: Any = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1}

# The style of text below a drawing.
CAPTION: Any = {"fontsize": 8.5, "color": "#555555"}

# For matplotlib.rc_context.
SETTINGS: Any = {
    "figure.dpi": 130,
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelcolor": "#333333",
    "axes.edgecolor": "#888888",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.8,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    # A background without an edge, so that no grid line crosses the words.
    "legend.frameon": True,
    "legend.facecolor": "white",
    "legend.edgecolor": "none",
    "legend.framealpha": 0.85,
    "legend.fontsize": 9,
}


def share_axes(panels: Iterable[SubFigure]) -> None:
    """Give corresponding axes of these panels the same limits, and equal values the same colors.

    Axes correspond by their order. Axes on another scale or without data stay as they are.
    """
    for together in zip(*(list(_axes(panel)) for panel in panels), strict=False):
        drawn = [axes for axes in together if axes.has_data() and not _is_colorbar(axes)]
        if len({axes.get_xscale() for axes in drawn}) == 1:
            left, right = _span(drawn[0].xaxis_inverted(), [axes.get_xlim() for axes in drawn])
            for axes in drawn:
                axes.set_xlim(left, right)
        if len({axes.get_yscale() for axes in drawn}) == 1:
            bottom, top = _span(drawn[0].yaxis_inverted(), [axes.get_ylim() for axes in drawn])
            for axes in drawn:
                axes.set_ylim(bottom, top)
        for colored in zip(*(list(_colored(axes)) for axes in drawn), strict=False):
            low, high = _span(False, [mappable.get_clim() for mappable in colored])
            for mappable in colored:
                mappable.set_clim(low, high)


def _axes(panel: SubFigure) -> Iterator[Axes]:
    """Yield the axes of a panel and of the panels in it."""
    yield from panel.axes
    for inner in panel.subfigs:
        yield from _axes(inner)


def _is_colorbar(axes: Axes) -> bool:
    # A color bar follows its own axes.
    return axes.get_label() == "<colorbar>"


def _colored(axes: Axes) -> Iterator[ScalarMappable]:
    """Yield images and collections whose colors are values."""
    for mappable in (*axes.images, *axes.collections):
        if mappable.get_array() is not None and None not in mappable.get_clim():
            yield mappable


def _span(inverted: bool, limits: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the limits that include all of these."""
    ends = [end for pair in limits for end in pair]
    return (max(ends), min(ends)) if inverted else (min(ends), max(ends))


def machine_words() -> str:
    """Describe the machine of a measurement for a caption: its kind and number of processors."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    name = name.replace("(R)", "").replace("(TM)", "") or "a machine without a name"
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{clean(name, 60)}, {counted(usable or 1, 'processor')}"
