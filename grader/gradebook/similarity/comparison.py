"""Comparison of the files of one exercise: the pairs with most in common, their similarity, and the lines.

Shared code weighs more if fewer files have it, and code of the stub weighs nothing. An index from runs to files
finds the files that share the most with a given one, and only these are compared token by token.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from grader.gradebook.similarity.findings import Lines
from grader.gradebook.similarity.fingerprints import RUN, Fingerprint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# About four lines; shorter code could be alike by chance.
LEAST_TOKENS = 40
# Each file is compared with this many others, which share the most with it.
CANDIDATES = 20


class SourceFile(msgspec.Struct, frozen=True):
    """A student's file of an exercise."""

    student: str
    digest: str
    fingerprint: Fingerprint


class Comparison:
    """A comparison of the files of an exercise.

    For each file, `_runs` has the numbers of its runs in order, with -1 for the stub's. `_owners` has file
    numbers sorted by run; the files with run g are `_owners[_starts[g]:][:_counts[g]]`.
    """

    def __init__(self, files: list[SourceFile], stub: Fingerprint) -> None:
        import numpy as np

        self.files = files
        runs = [file.fingerprint.runs for file in files]
        own = [np.setdiff1d(file_runs, stub.runs) for file_runs in runs]
        values = np.unique(np.concatenate([np.zeros(0, np.uint64), *own]))
        self._runs = [_numbers(run, values) for run in runs]
        numbers = [np.searchsorted(values, run) for run in own]
        all_numbers = np.concatenate([np.zeros(0, np.intp), *numbers])
        owners = np.repeat(np.arange(len(files)), [len(number) for number in numbers])
        self._owners = owners[np.argsort(all_numbers, kind="stable")]
        self._counts = np.bincount(all_numbers, minlength=len(values))
        self._starts = np.cumsum(self._counts) - self._counts
        # A run in one file counts like a run in two; a run in all files weighs nothing.
        self._weights = np.log((len(files) + 1) / np.maximum(self._counts, 2))
        self._own = numbers
        least = LEAST_TOKENS * np.log((len(files) + 1) / 2) / 2
        self._totals = np.array([max(self._weight(n), least) for n in range(len(files))])
        tokens = [
            int(f.fingerprint.covered(r >= 0).sum()) for f, r in zip(files, self._runs, strict=True)
        ]
        self.is_short = np.array([count < LEAST_TOKENS for count in tokens], bool)

    def nearest(self, first: int = 0) -> Iterator[tuple[int, int, float]]:
        """Yield the pairs of files that share the most, as two ascending numbers and their similarity.

        With `first`, each pair has one of the first `first` files and one of the others.
        """
        import numpy as np

        seen: set[tuple[int, int]] = set()
        # A single file has nothing to be compared with.
        lefts = self._own[: first or None] if len(self.files) > 1 else ()
        for left, own in enumerate(lefts):
            if self.is_short[left]:
                continue
            counts = self._counts[own]
            members = self._owners[_ranges(self._starts[own], counts)]
            weights = np.repeat(self._weights[own], counts)
            shared = np.bincount(members, weights, minlength=len(self.files))
            shared[self.is_short] = 0
            shared[left] = 0
            shared[:first] = 0
            # A large file shares much with every file, so relative shares count.
            shares = shared / np.minimum(self._totals, self._totals[left])
            best = np.argsort(-shares, kind="stable")[:CANDIDATES]
            seen |= {(min(left, n), max(left, n)) for n in best.tolist() if shared[n] > 0}
        for first, second in sorted(seen):
            yield first, second, self.similarity(first, second)

    def similarity(self, left: int, right: int) -> float:
        """Return the weighted share (0 to 1) of the smaller file's own code that the other has, too."""
        smaller, larger = sorted((left, right), key=lambda n: self._totals[n])
        shared = self._weight(smaller, self._in_common(smaller, larger))
        return round(min(float(shared / self._totals[smaller]), 1.0), 4)

    def shared_lines(self, number: int, other: int) -> Lines:
        """Return the lines of a file that the other has, too, without code of the stub or most files."""
        shared = self._in_common(number, other)
        usual = self._counts[self._runs[number]] > max(len(self.files) / 2, 2)
        return self.files[number].fingerprint.spans(shared & ~usual)

    def _in_common(self, number: int, other: int) -> NDArray[np.bool_]:
        """Return a mask of the runs of a file that the other has."""
        import numpy as np

        has = np.zeros(len(self._counts) + 1, bool)
        has[self._own[other]] = True
        # Runs of the stub have number -1, the last place, which is never set.
        in_common: NDArray[np.bool_] = has[self._runs[number]]
        return in_common

    def _weight(self, number: int, chosen: NDArray[np.bool_] | None = None) -> float:
        """Return the weight of a file's tokens; the rarest chosen run with a token decides its weight."""
        import numpy as np

        runs = self._runs[number]
        weights = np.append(self._weights, 0.0)[runs]
        if chosen is not None:
            weights = weights * chosen
        tokens = np.zeros(len(runs) + RUN - 1)
        for place in range(RUN):
            stretch = tokens[place : place + len(runs)]
            np.maximum(stretch, weights, out=stretch)
        return float(tokens.sum())


def _numbers(runs: NDArray[np.uint64], values: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return the place of each run in these sorted values; -1 if it is missing."""
    import numpy as np

    if not len(values):
        return np.full(len(runs), -1)
    places = np.minimum(np.searchsorted(values, runs), len(values) - 1)
    return np.where(values[places] == runs, places, -1)


def _ranges(starts: NDArray[np.intp], counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the concatenated ranges that begin at each start and have these lengths."""
    import numpy as np

    ranges: NDArray[np.intp] = np.arange(counts.sum()) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    return ranges + np.repeat(starts, counts)
