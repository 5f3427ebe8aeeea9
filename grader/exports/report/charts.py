"""Where the bars of a histogram stand; the template draws them, in the colors of the page."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = ["Bar", "Histogram", "histogram"]

BINS = 10
WIDTH, HEIGHT = 640, 200
_LEFT, _TOP, _BOTTOM, _GAP = 8, 30, 32, 6


class Bar(msgspec.Struct, frozen=True):
    """One bar, in the units of the drawing, with the range of percent that it counts."""

    x: float
    y: float
    width: float
    height: float
    count: int
    label: str


class Histogram(msgspec.Struct, frozen=True):
    """Ten bars of ten percent each; the last one holds full marks too."""

    width: int
    height: int
    baseline: float
    bars: tuple[Bar, ...]


def histogram(shares: Iterable[float]) -> Histogram:
    """The distribution of shares between 0 and 1."""
    counts = [0] * BINS
    for share in shares:
        # 0.7 is 0.7000000000000001 of ten bins in one computation and less in another.
        counts[min(max(int(round(share * BINS, 6)), 0), BINS - 1)] += 1
    pitch = (WIDTH - 2 * _LEFT) / BINS
    room, baseline = HEIGHT - _TOP - _BOTTOM, HEIGHT - _BOTTOM
    bars = []
    for place, count in enumerate(counts):
        height = room * count / (max(counts) or 1)
        last = place == BINS - 1
        label = f"{place * 10}\N{EN DASH}{100 if last else place * 10 + 9} %"
        bars.append(
            Bar(
                x=round(_LEFT + place * pitch + _GAP / 2, 2),
                y=round(baseline - height, 2),
                width=round(pitch - _GAP, 2),
                height=round(height, 2),
                count=count,
                label=label,
            )
        )
    return Histogram(WIDTH, HEIGHT, baseline, tuple(bars))
