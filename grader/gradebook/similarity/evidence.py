"""Thresholds for `survey`, learned from the similarities in each exercise, and over all exercises.

Most pairs of a class worked independently, even if some students copied. The bulk of similarities, from the
median to the last tenth, shows their spread. The spread gives the highest similarity to expect among as many
independent pairs, and there the bulk ends. Similarities are shares, whose spread shrinks towards 0 and 1, so
their arcsine root is used, which has an even spread and is nearly normal.

A pair that is moderately alike in several exercises may be reported although it is below the end in each. An
exercise counts if the pair is among the `USUAL_SHARE` of most alike pairs; the higher its rank, the more. These
counts are added up for each pair, and each student's largest sum is taken. A Gumbel distribution, the limit of
maxima, is fitted to the lower half of these sums. People who always write alike are part of this bulk.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import msgspec

# With fewer files, no distribution can be learned.
LEAST_FILES = 10
# If no student copied, on average this many pairs of a class exceed the end of its bulk by chance.
ALARMS = 0.05
# Below this, two files are never reported, however little others have in common.
LEAST_SIMILARITY = 0.4
# With an end beyond this, even equal files are ordinary.
_MAX_TOLD = 0.99
# A narrower spread does not show how a class varies.
_LEAST_SPREAD = 0.03
USUAL_SHARE = 0.05
_LEAST_SUM_SCALE = 1.0

Pair = tuple[str, str]


class Bulk(msgspec.Struct, frozen=True, kw_only=True):
    """The ordinary similarities of an exercise: their median, and their end.

    An `end` of 1.0 means that even equal files are ordinary.
    """

    median: float
    end: float


def learned_bulk(similarities: Sequence[float], pairs: int) -> Bulk:
    """Return the bulk of a class with this many pairs, from the similarities of a random sample."""
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
        median=round(math.sin(median) ** 2, 4), end=1.0 if end > _MAX_TOLD else round(end, 4)
    )


def joint_evidence(
    similarities: Mapping[str, Mapping[Pair, float]], files: Mapping[str, int]
) -> dict[Pair, dict[str, float]]:
    """Map each pair that is unusually alike in some exercises to its evidence, by exercise.

    Args:
        similarities: by exercise, the similarities of the nearest pairs.
        files: by exercise, the number of compared files.
    """
    evidence: dict[Pair, dict[str, float]] = {}
    for exercise, pairs in similarities.items():
        usual = USUAL_SHARE * files[exercise] * (files[exercise] - 1) / 2
        ordered = sorted(pairs, key=lambda pair: -pairs[pair])
        end = 0
        for _, equal in itertools.groupby(ordered, key=lambda pair: pairs[pair]):
            # Equally alike pairs all get the last place of their group.
            group = list(equal)
            end += len(group)
            if end >= usual:
                break
            for pair in group:
                evidence.setdefault(pair, {})[exercise] = math.log(usual / end)
    return evidence


def learned_sum(evidence: Mapping[Pair, Mapping[str, float]], students: Iterable[str]) -> float:
    """Return the evidence that no pair of such a class reaches by chance; infinite for a small class."""
    largest = dict.fromkeys(students, 0.0)
    if len(largest) < LEAST_FILES:
        return math.inf
    for pair, counts in evidence.items():
        total = sum(counts.values())
        for student in pair:
            largest[student] = max(largest.get(student, 0.0), total)
    # A single exercise has its own threshold, so the sum must exceed the most that one exercise can count.
    pairs = len(largest) * (len(largest) - 1) / 2
    return max(_end(sorted(largest.values()), _LEAST_SUM_SCALE), math.log(USUAL_SHARE * pairs))


def _end(values: list[float], least_scale: float) -> float:
    """Return the value that `ALARMS` of these values exceed by chance.

    The Gumbel distribution is fitted to their first quartile and median.
    """
    quartile, median = _quantile(values, 0.25), _quantile(values, 0.5)
    scale = max((median - quartile) / (_gumbel(0.5) - _gumbel(0.25)), least_scale)
    return median + scale * (math.log(len(values) / ALARMS) - _gumbel(0.5))


def _gumbel(share: float) -> float:
    """Return a quantile of the standard Gumbel distribution."""
    return -math.log(-math.log(share))


def _quantile(values: list[float], share: float) -> float:
    place = share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (place - below) * (values[above] - values[below])
