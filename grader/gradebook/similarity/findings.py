"""The findings of `grade similar`: structs, the file `similar.json` of a RESULTS folder, and an export.

`write_files` writes the files of a class for Dolos and JPlag, which compare in other ways.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from pathlib import Path

import msgspec

from grader.errors import GraderError, UsageError, not_written
from grader.results import Entry
from grader.submissions import safe_name

FILE = "similar.json"
FORMAT_VERSION = 2

Lines = tuple[tuple[int, int], ...]


class Basis(Enum):
    """The origin of an exercise's threshold."""

    LEARNED = "learned"  # from the similarities in this class
    FIXED = "fixed"  # too few files to learn from
    GIVEN = "given"  # by --threshold
    NONE = "none"  # equal parts are ordinary in this exercise, so only equal files count


class SimilarPair(msgspec.Struct, frozen=True, kw_only=True):
    """Two students whose files of an exercise are alike, for an unknown reason.

    similarity: the share (0 to 1) of the smaller file's own code that the other has; rare code weighs more.
    left_lines, right_lines: first and last lines of shared parts, counted from 1.
    alone: whether the similarity reaches the exercise's threshold; else only several exercises together do.
    left_digest, right_digest: the digests of the compared files.
    """

    exercise: str
    left: str
    right: str
    similarity: float
    left_lines: Lines
    right_lines: Lines
    alone: bool = True
    left_digest: str = ""
    right_digest: str = ""


class ExerciseSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of an exercise.

    files: the number of attempted files; short: how many have too little code of their own to compare.
    alike: the number of pairs that reach the threshold; the most alike of them are kept.
    at_other_thresholds: the number of pairs that a given `--threshold` would report.
    median, bulk_end: the median similarity of all pairs, and the end of the ordinary ones; None if not learned.
    """

    exercise: str
    files: int
    short: int
    alike: int
    at_other_thresholds: dict[str, int] = {}
    basis: Basis = Basis.GIVEN
    threshold: float = 1.0
    median: float | None = None
    bulk_end: float | None = None


class AlikeCircle(msgspec.Struct, frozen=True, kw_only=True):
    """Students who are all alike in an exercise, and the lowest and highest similarity of their pairs."""

    students: tuple[str, ...]
    lowest: float
    highest: float


class GroupExercise(msgspec.Struct, frozen=True, kw_only=True):
    """An exercise in which pairs of a group are alike: their number, lowest and highest similarity.

    Every pair is in one of the `circles`, the largest first.
    """

    exercise: str
    pairs: int
    lowest: float
    highest: float
    alone: bool
    circles: tuple[AlikeCircle, ...] = ()


class AlikeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Students with alike pairs, and the exercises, the most alike first."""

    students: tuple[str, ...]
    exercises: tuple[GroupExercise, ...]


class CorpusMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A student's file that is like one of a corpus, which is named only by its digest (SHA-256)."""

    exercise: str
    student: str
    similarity: float
    lines: Lines
    corpus_lines: Lines
    digest: str
    corpus_digest: str


class CorpusSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """The number of compared files of a corpus, and the threshold; `learned` from the class or fixed."""

    exercise: str
    files: int
    threshold: float
    learned: bool


class Similarity(msgspec.Struct, frozen=True, kw_only=True):
    """The alike pairs of a class, by exercise, the most alike first, and as groups, the strongest first.

    `threshold` is the given one; None if each exercise has its own. `corpus` has at most one match for each
    student and exercise.
    """

    format_version: int = FORMAT_VERSION
    threshold: float | None = None
    exercises: tuple[ExerciseSurvey, ...]
    pairs: tuple[SimilarPair, ...]
    groups: tuple[AlikeGroup, ...] = ()
    corpus: tuple[CorpusMatch, ...] = ()
    corpus_surveys: tuple[CorpusSurvey, ...] = ()

    def only(self, exercises: Collection[str]) -> Similarity:
        """Return the findings in these exercises."""
        groups = []
        for group in self.groups:
            parts = tuple(part for part in group.exercises if part.exercise in exercises)
            there = {s for part in parts for circle in part.circles for s in circle.students}
            # An earlier grader did not keep circles.
            students = tuple(s for s in group.students if s in there) or group.students
            if parts:
                groups.append(AlikeGroup(students=students, exercises=parts))
        return msgspec.structs.replace(
            self,
            exercises=tuple(e for e in self.exercises if e.exercise in exercises),
            pairs=tuple(pair for pair in self.pairs if pair.exercise in exercises),
            groups=tuple(groups),
            corpus=tuple(match for match in self.corpus if match.exercise in exercises),
            corpus_surveys=tuple(e for e in self.corpus_surveys if e.exercise in exercises),
        )


def write_similar(results: Path, similarity: Similarity) -> Path:
    """Write `similar.json` into a RESULTS folder, and return its path; raises GraderError."""
    path = results / FILE
    try:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(similarity), indent=2) + b"\n")
    except OSError as error:
        raise GraderError(f"{path} cannot be written: {error.strerror}.") from error
    return path


def read_similar(results: Path) -> Similarity | None:
    """Return the findings that `grade similar` wrote into a RESULTS folder; None if it has not run.

    Raises GraderError if they are damaged.
    """
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
    """Return the digest of a file in the findings."""
    return hashlib.sha256(source).hexdigest()


# --- for other tools ----------------------------------------------------------------------------------


def write_files(
    folder: Path,
    entries: Iterable[Entry],
    sources: Callable[[Entry], Mapping[str, bytes]],
    stubs: Mapping[str, bytes],
) -> int:
    """Write the counted attempts of a class into a new folder, and return the number of files.

    Each exercise has `submissions/<student>/<exercise>.py`, where JPlag looks for submissions, the stub in
    `stub/` as its base code, and the table `info.csv` with paths and names for Dolos.

    Raises GraderError if the folder is not empty or cannot be written.
    """
    tables = {exercise: [("filename", "full_name")] for exercise in stubs}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty: name a new folder.")
        for exercise, stub in stubs.items():
            (folder / exercise / "stub").mkdir(parents=True)
            (folder / exercise / "stub" / f"{exercise}.py").write_bytes(stub)
        for entry in entries:
            student = entry.student
            for exercise, source in sources(entry).items():
                if exercise in stubs:
                    name = f"submissions/{safe_name(student.id)}/{exercise}.py"
                    path = folder / exercise / name
                    path.parent.mkdir(parents=True)
                    path.write_bytes(source)
                    tables[exercise].append((name, student.name or student.id))
        for exercise, rows in tables.items():
            with (folder / exercise / "info.csv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows(rows)
    except OSError as error:
        raise not_written(folder, error) from error
    return sum(len(rows) - 1 for rows in tables.values())
