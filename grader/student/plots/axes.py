"""The same axes for pictures that stand beside each other, so that what differs is what was drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import SubFigure


def share_axes(panels: Iterable[SubFigure]) -> None:
    """Give the axes that correspond in these panels the same limits, and the same colors the same values.

    Axes correspond by their order. Those on another scale, and those without data, stay as they are.
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
    """The axes of a panel and of the panels in it."""
    yield from panel.axes
    for inner in panel.subfigs:
        yield from _axes(inner)


def _is_colorbar(axes: Axes) -> bool:
    # It follows what it is the bar of.
    return axes.get_label() == "<colorbar>"


def _colored(axes: Axes) -> Iterator[ScalarMappable]:
    """Images and collections whose colors are values."""
    for mappable in (*axes.images, *axes.collections):
        if mappable.get_array() is not None and None not in mappable.get_clim():
            yield mappable


def _span(inverted: bool, limits: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """What all of these limits lie within."""
    ends = [end for pair in limits for end in pair]
    return (max(ends), min(ends)) if inverted else (min(ends), max(ends))
