"""Thresholds, for `survey`: learned from how alike files are in each exercise, and over all exercises.

Most pairs of a class are of independent work, even where some copied. The bulk of their similarities, from
the median to the last tenth, says how it is spread, and with that how alike the most alike of so many
independent pairs would be: there the bulk ends. Similarities are shares, whose spread shrinks towards 0 and
1; their arcsine root is spread evenly, and nearly as a normal distribution.

A pair that is moderately alike in several exercises may be told though it is below the end in each. An
exercise in which the pair is among the most alike `USUAL_SHARE` of all pairs counts, the more the rarer its
place. Of these sums the largest of each student are taken; their lower half is fitted by a Gumbel
distribution, the limit of maxima. People who always write alike are part of that bulk.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import msgspec

# From so few files no distribution can be learned.
LEAST_FILES = 10
# So many pairs of a class, on average, are beyond the end of its bulk by chance, if no student copied.
ALARMS = 0.05
# Below this two files have not enough in common to be told, however unlike the others are.
LEAST_SIMILARITY = 0.4
# An end beyond this is none: files that are equal in all that counts are then ordinary.
_MOST_TOLD = 0.99
# With a narrower spread than this, a class has not shown how it varies.
_LEAST_SPREAD = 0.03
USUAL_SHARE = 0.05
_LEAST_SUM_SCALE = 1.0

Pair = tuple[str, str]


class Bulk(msgspec.Struct, frozen=True, kw_only=True):
    """How alike two files of an exercise ordinarily are: the median, and where that ends.

    An `end` of 1.0 says that likeness tells nothing: equal files are ordinary.
    """

    median: float
    end: float


def learned_bulk(similarities: Sequence[float], pairs: int) -> Bulk:
    """The bulk of a class of so many pairs, from the similarities of any of them, picked blindly."""
    spread_out = sorted(math.asin(math.sqrt(share)) for share in similarities)
    normal = statistics.NormalDist()
    median, last_quarter, last_tenth = (_quantile(spread_out, s) for s in (0.5, 0.75, 0.9))
    spread = max(
        (last_quarter - median) / normal.inv_cdf(0.75),
        (last_tenth - median) / normal.inv_cdf(0.9),
        _LEAST_SPREAD,
    )
    end = math.sin(min(median + spread * normal.inv_cdf(1 - ALARMS / pairs), math.pi / 2)) ** 2
    return Bulk(
        median=round(math.sin(median) ** 2, 4), end=1.0 if end > _MOST_TOLD else round(end, 4)
    )


def joint_evidence(
    similarities: Mapping[str, Mapping[Pair, float]], files: Mapping[str, int]
) -> dict[Pair, dict[str, float]]:
    """For each pair that is unusually alike in an exercise, how much each such exercise counts.

    Args:
        similarities: by exercise, those of the nearest pairs.
        files: by exercise, how many files were compared.
    """
    evidence: dict[Pair, dict[str, float]] = {}
    for exercise, pairs in similarities.items():
        usual = USUAL_SHARE * files[exercise] * (files[exercise] - 1) / 2
        ordered = sorted(pairs, key=lambda pair: -pairs[pair])
        end = 0
        for _, equal in itertools.groupby(ordered, key=lambda pair: pairs[pair]):
            # Of equally alike pairs each has the last place.
            group = list(equal)
            end += len(group)
            if end >= usual:
                break
            for pair in group:
                evidence.setdefault(pair, {})[exercise] = math.log(usual / end)
    return evidence


def learned_sum(evidence: Mapping[Pair, Mapping[str, float]], students: Iterable[str]) -> float:
    """The sum of evidence that no pair of such a class reaches by chance; infinite for a small class."""
    largest = dict.fromkeys(students, 0.0)
    if len(largest) < LEAST_FILES:
        return math.inf
    for pair, counts in evidence.items():
        total = sum(counts.values())
        for student in pair:
            largest[student] = max(largest.get(student, 0.0), total)
    # One exercise has its own end; what is learned here is for more than the most that it could count.
    pairs = len(largest) * (len(largest) - 1) / 2
    return max(_end(sorted(largest.values()), _LEAST_SUM_SCALE), math.log(USUAL_SHARE * pairs))


def _end(values: list[float], least_scale: float) -> float:
    """Where the Gumbel distribution with this first quartile and median leaves `ALARMS` of so many values."""
    quartile, median = _quantile(values, 0.25), _quantile(values, 0.5)
    scale = max((median - quartile) / (_gumbel(0.5) - _gumbel(0.25)), least_scale)
    return median + scale * (math.log(len(values) / ALARMS) - _gumbel(0.5))


def _gumbel(share: float) -> float:
    """The quantile of the standard Gumbel distribution."""
    return -math.log(-math.log(share))


def _quantile(values: list[float], share: float) -> float:
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (place - below) * (values[above] - values[below])
