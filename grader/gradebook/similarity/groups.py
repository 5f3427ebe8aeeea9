"""Pairs gathered into groups, so that five who share one file are told once and not as ten pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

Pair = tuple[str, str]

# Two groups become one if so many of the pairs between them are alike: a chain of pairs is no group.
LINKED_SHARE = 0.5


def grouped(strengths: Mapping[Pair, float]) -> list[tuple[str, ...]]:
    """The groups of these pairs, each of two or more; every pair is in one, and a student may be in several.

    The strongest pairs are joined first, by average linkage.
    """
    ordered = sorted(strengths, key=lambda pair: (-strengths[pair], pair))
    clusters = _Clusters(ordered)
    # What joined late may link groups that were seen before.
    while sum(clusters.join(pair) for pair in ordered):
        pass
    return sorted({clusters.group_of(pair) for pair in ordered})


class _Clusters:
    def __init__(self, pairs: list[Pair]) -> None:
        self._of = {student: student for pair in pairs for student in pair}
        self._members = {student: [student] for student in self._of}
        self._links: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for left, right in pairs:
            self._links[left][right] += 1
            self._links[right][left] += 1

    def join(self, pair: Pair) -> bool:
        """Join the clusters of a pair, if enough of their pairs are alike."""
        into, other = (self._of[student] for student in pair)
        if into == other:
            return False
        possible = len(self._members[into]) * len(self._members[other])
        if self._links[into][other] < LINKED_SHARE * possible:
            return False
        for student in self._members.pop(other):
            self._of[student] = into
            self._members[into].append(student)
        for third, count in self._links.pop(other).items():
            del self._links[third][other]
            if third != into:
                self._links[into][third] += count
                self._links[third][into] += count
        return True

    def group_of(self, pair: Pair) -> tuple[str, ...]:
        """The members of the cluster that holds the pair; the pair itself, if none does."""
        left, right = (self._of[student] for student in pair)
        return tuple(sorted(self._members[left])) if left == right else tuple(sorted(pair))
