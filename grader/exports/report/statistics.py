"""The numbers of a class: quantiles, and how well one item goes along with all others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

__all__ = ["FEWEST_STUDENTS", "discrimination", "mean", "median", "quantile"]

# Below it a correlation is mostly chance: its standard error, 1 / sqrt(n - 3), is above 0.24.
FEWEST_STUDENTS = 20


def mean(values: Sequence[float]) -> float | None:
    """The mean; None of nothing."""
    return math.fsum(values) / len(values) if values else None


def median(values: Sequence[float]) -> float | None:
    """The median; None of nothing."""
    return statistics.median(values) if values else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share of the values does not exceed; None of nothing."""
    if not values:
        return None
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


def discrimination(items: Sequence[float], rests: Sequence[float]) -> float | None:
    """The corrected item-total correlation: an item's points against all other points.

    `items` and `rests` (the student's total without the item) are of the same students in the same
    order. For an item that is passed or not this is the point-biserial correlation. None where it
    would say nothing: too few students, or all of them alike in one of the two.
    """
    if len(items) < FEWEST_STUDENTS or len(set(items)) < 2 or len(set(rests)) < 2:
        return None
    return statistics.correlation(items, rests)
