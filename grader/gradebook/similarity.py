"""Alike pairs of a class: files of an exercise that have long runs of tokens in common.

Runs of the stub are left out, and so are those that many of the class have: the usual way to write a
line says nothing about two students. An index from runs to files finds the pairs, so that no file is
compared with every other one.

copydetect was weighed and left: its last change is of March 2024, it compares every two files, and
its choice of fingerprints hangs on Python's hash seed (in three processes the same two files were
0, 13 and 14 % alike).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from grader.errors import GraderError
from grader.gradebook.fingerprints import Fingerprint, Reader
from grader.results import Entry, Status

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FILE = "similar.json"
FORMAT_VERSION = 1
THRESHOLD = 0.6
MOST_PAIRS = 200
# With less code of one's own than about five lines, two files could be alike by chance.
LEAST_RUNS = 40
# What more files than this have is how one writes it; Moss draws its line at 10 as well.
COMMON_FILES = 10
COMMON_SHARE = 0.1

Lines = tuple[tuple[int, int], ...]


class SimilarPair(msgspec.Struct, frozen=True, kw_only=True):
    """Two students whose files of an exercise are alike; how that came about it cannot tell.

    `similarity` is the share, 0 to 1, of the smaller file's own runs that the other one has too;
    lines are first and last, counted from 1; the digests are those of the files compared.
    """

    exercise: str
    left: str
    right: str
    similarity: float
    left_lines: Lines
    right_lines: Lines
    left_digest: str = ""
    right_digest: str = ""


class ExerciseSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """The files that were compared: of `files` that were attempted, `short` had too little of their own.

    `alike` pairs reached the threshold; the most alike of them are kept.
    """

    exercise: str
    files: int
    short: int
    alike: int


class Similarity(msgspec.Struct, frozen=True, kw_only=True):
    """The alike pairs of a class, by exercise and then the most alike first."""

    format_version: int = FORMAT_VERSION
    threshold: float
    exercises: tuple[ExerciseSurvey, ...]
    pairs: tuple[SimilarPair, ...]


class _File(msgspec.Struct, frozen=True):
    student: str
    digest: str
    fingerprint: Fingerprint


def find_similar(
    entries: Iterable[Entry],
    sources: Callable[[Entry], Mapping[str, bytes]],
    stubs: Mapping[str, bytes],
    *,
    threshold: float = THRESHOLD,
    most_pairs: int = MOST_PAIRS,
) -> Similarity:
    """Find the alike pairs among the counted attempts of a class.

    Args:
        entries: the attempts, one a student.
        sources: gives the files of an entry, by exercise.
        stubs: by exercise, in the order of the course, what every student was given.
        threshold: a pair is told from this similarity on, 0 to 1.
        most_pairs: so many pairs of each exercise are kept, the most alike.
    """
    reader = Reader()
    files: dict[str, list[_File]] = {exercise: [] for exercise in stubs}
    for entry in entries:
        # A file that is still the stub, or no more than it, has nothing that could be alike.
        todo = {e.name for e in entry.result.exercises if e.status is Status.NOT_ATTEMPTED}
        for exercise, source in sources(entry).items():
            if exercise not in todo and source != stubs.get(exercise):
                file = _File(entry.student.id, source_digest(source), reader.read(source))
                files.setdefault(exercise, []).append(file)
    surveys: list[ExerciseSurvey] = []
    pairs: list[SimilarPair] = []
    for exercise, compared in files.items():
        index = _Index(compared, reader.read(stubs.get(exercise, b"")))
        # Ties by name: the same class gives the same pairs, in whatever order it comes.
        alike = sorted(
            index.alike(threshold),
            key=lambda p: (-p[0], compared[p[1]].student, compared[p[2]].student),
        )
        surveys.append(
            ExerciseSurvey(
                exercise=exercise, files=len(compared), short=index.short, alike=len(alike)
            )
        )
        pairs += (index.pair(exercise, *pair) for pair in alike[:most_pairs])
    return Similarity(threshold=threshold, exercises=tuple(surveys), pairs=tuple(pairs))


class _Index:
    """From each run that tells something to the files that have it.

    `_owners` are file numbers sorted by run; group g of them is `_owners[_starts[g]:][:_counts[g]]`.
    """

    def __init__(self, files: list[_File], stub: Fingerprint) -> None:
        import numpy as np

        self._files = files
        own = [np.setdiff1d(file.fingerprint.runs, stub.runs) for file in files]
        runs = np.concatenate([np.zeros(0, np.uint64), *own])
        owners = np.repeat(np.arange(len(files)), [len(runs_of_file) for runs_of_file in own])
        order = np.argsort(runs, kind="stable")
        values, inverse, counts = np.unique(runs[order], return_inverse=True, return_counts=True)
        telling = counts <= max(COMMON_FILES, COMMON_SHARE * len(files))
        kept = telling[inverse]
        self._owners = owners[order][kept]
        self._values, self._counts = values[telling], counts[telling]
        self._starts = np.cumsum(self._counts) - self._counts
        self._groups = np.repeat(np.arange(len(self._counts)), self._counts)
        self._sizes = np.bincount(self._owners, minlength=len(files))
        self.short = int((self._sizes < LEAST_RUNS).sum())

    def alike(self, threshold: float) -> Iterator[tuple[float, int, int]]:
        """Similarity and file numbers of each pair from the threshold on."""
        import numpy as np

        if not self._files:
            return
        by_file = np.argsort(self._owners, kind="stable")
        groups = np.split(self._groups[by_file], np.cumsum(self._sizes)[:-1])
        for left, mine in enumerate(groups):
            if self._sizes[left] < LEAST_RUNS:
                continue
            shared = np.bincount(self._members(mine), minlength=len(self._files))
            shares = shared / np.maximum(np.minimum(self._sizes, self._sizes[left]), LEAST_RUNS)
            shares[: left + 1] = 0
            shares[self._sizes < LEAST_RUNS] = 0
            for right in np.flatnonzero(shares >= max(threshold, 1e-9)):
                yield round(float(shares[right]), 4), left, int(right)

    def _members(self, groups: NDArray[np.intp]) -> NDArray[np.intp]:
        """The files of these groups, one after the other."""
        import numpy as np

        counts = self._counts[groups]
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        members: NDArray[np.intp] = self._owners[np.repeat(self._starts[groups], counts) + offsets]
        return members

    def pair(self, exercise: str, similarity: float, left: int, right: int) -> SimilarPair:
        """The pair of two files, with the lines that they share."""
        import numpy as np

        first, second = sorted((self._files[left], self._files[right]), key=lambda f: f.student)
        shared = np.intersect1d(first.fingerprint.runs, second.fingerprint.runs)
        shared = np.intersect1d(shared, self._values)
        return SimilarPair(
            exercise=exercise,
            left=first.student,
            right=second.student,
            similarity=similarity,
            left_lines=first.fingerprint.spans(shared),
            right_lines=second.fingerprint.spans(shared),
            left_digest=first.digest,
            right_digest=second.digest,
        )


def write_similar(results: Path, similarity: Similarity) -> Path:
    """Write `similar.json` into a RESULTS folder, and return its path."""
    path = results / FILE
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(similarity), indent=2) + b"\n")
    except OSError as error:
        raise GraderError(f"{path} cannot be written: {error.strerror}.") from error
    return path


def read_similar(results: Path) -> Similarity | None:
    """The pairs that `grade similar` wrote into a RESULTS folder; None if it did not run yet."""
    path = results / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Similarity)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise GraderError(
            f"{path} cannot be read: {error}. Run `grade similar` again, or delete the file."
        ) from error


def source_digest(source: bytes) -> str:
    """The digest by which a pair names a file that was compared."""
    return hashlib.sha256(source).hexdigest()
