"""The files of one exercise, compared: which have much in common, how much it is, and on which lines.

What two files share weighs more the fewer files have it, and what the stub has weighs nothing. An index from
runs to files finds, for each file, those that share the most with it; only these are compared token by token.
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

# With less code of one's own than some four lines, two files could be alike by chance.
LEAST_TOKENS = 40
# So many files are compared with each one, those that share the most with it.
CANDIDATES = 20


class SourceFile(msgspec.Struct, frozen=True):
    """A student's file of an exercise."""

    student: str
    digest: str
    fingerprint: Fingerprint


class Comparison:
    """Compares the files of an exercise.

    `_runs` has for each file the numbers of its runs in order, -1 for the stub's. `_owners` are file numbers
    sorted by run; those of run g are `_owners[_starts[g]:][:_counts[g]]`.
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
        # What one file alone has could stand in two; what all have tells nothing.
        self._weights = np.log((len(files) + 1) / np.maximum(self._counts, 2))
        self._own = numbers
        least = LEAST_TOKENS * np.log((len(files) + 1) / 2) / 2
        self._totals = np.array([max(self._weight(n), least) for n in range(len(files))])
        tokens = [
            int(f.fingerprint.covered(r >= 0).sum()) for f, r in zip(files, self._runs, strict=True)
        ]
        self.is_short = np.array([count < LEAST_TOKENS for count in tokens], bool)

    def nearest(self, first: int = 0) -> Iterator[tuple[int, int, float]]:
        """Pairs of file numbers, the smaller first, each once, that share the most, and their similarity.

        With `first` they are those of one of the first so many files with one of the others.
        """
        import numpy as np

        seen: set[tuple[int, int]] = set()
        # Of a single file all parts have the weight 0, and there is nothing to compare it with.
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
            # Of a large file much is shared with every file: what counts is the share.
            shares = shared / np.minimum(self._totals, self._totals[left])
            best = np.argsort(-shares, kind="stable")[:CANDIDATES]
            seen |= {(min(left, n), max(left, n)) for n in best.tolist() if shared[n] > 0}
        for first, second in sorted(seen):
            yield first, second, self.similarity(first, second)

    def similarity(self, left: int, right: int) -> float:
        """The share, 0 to 1, of the smaller file's own code that the other has too, each part by its weight."""
        smaller, larger = sorted((left, right), key=lambda n: self._totals[n])
        shared = self._weight(smaller, self._in_common(smaller, larger))
        return round(min(float(shared / self._totals[smaller]), 1.0), 4)

    def shared_lines(self, number: int, other: int) -> Lines:
        """The lines of the first file that stand in the other one too, without the stub and what most have."""
        shared = self._in_common(number, other)
        usual = self._counts[self._runs[number]] > max(len(self.files) / 2, 2)
        return self.files[number].fingerprint.spans(shared & ~usual)

    def _in_common(self, number: int, other: int) -> NDArray[np.bool_]:
        """Which runs of the first file the other one has."""
        import numpy as np

        has = np.zeros(len(self._counts) + 1, bool)
        has[self._own[other]] = True
        # The stub's are number -1, the last place, which is never set.
        in_common: NDArray[np.bool_] = has[self._runs[number]]
        return in_common

    def _weight(self, number: int, chosen: NDArray[np.bool_] | None = None) -> float:
        """The weight of the tokens of a file, each by the rarest of the chosen runs in which it stands."""
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
    """The place of each run among these sorted values, -1 for one that is not there."""
    import numpy as np

    if not len(values):
        return np.full(len(runs), -1)
    places = np.minimum(np.searchsorted(values, runs), len(values) - 1)
    return np.where(values[places] == runs, places, -1)


def _ranges(starts: NDArray[np.intp], counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """The numbers from each start on, one after the other."""
    import numpy as np

    ranges: NDArray[np.intp] = np.arange(counts.sum()) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    return ranges + np.repeat(starts, counts)
