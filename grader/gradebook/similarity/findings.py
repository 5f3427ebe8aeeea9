"""What `grade similar` finds: as structs, as the file `similar.json` of a RESULTS folder, and for other tools.

Dolos and JPlag, which compare in other ways, read the files that `write_files` hands over to them.
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
    """Where the threshold of an exercise comes from."""

    LEARNED = "learned"  # from how alike the files of this class are
    FIXED = "fixed"  # too few files to learn from
    GIVEN = "given"  # by --threshold
    NONE = (
        "none"  # equal parts are ordinary in this exercise: it tells only files with all in common
    )


class SimilarPair(msgspec.Struct, frozen=True, kw_only=True):
    """Two students whose files of an exercise are alike; how that came about it cannot tell.

    `similarity` is the share, 0 to 1, of the smaller file's own code that the other one has too, rare code
    weighing more; `alone` is False if the threshold of the exercise is not reached, and only several
    exercises together tell the pair. Lines are first and last, counted from 1; the digests are those of the
    files compared.
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
    """The files that were compared: of `files` that were attempted, `short` had too little of their own.

    `alike` pairs reached the threshold; the most alike of them are kept. `at_other_thresholds` says how many
    `--threshold` would tell. `median` is that of the similarities
    of all pairs, and `bulk_end` where that is no longer ordinary, both None if nothing was learned.
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
    """Students who are all alike with one another in an exercise, and how much the least and the most are."""

    students: tuple[str, ...]
    lowest: float
    highest: float


class GroupExercise(msgspec.Struct, frozen=True, kw_only=True):
    """An exercise in which pairs of a group are alike: how many, and the least and the most alike of them.

    The `circles` say who is alike with whom, the largest first; every pair is in one of them.
    """

    exercise: str
    pairs: int
    lowest: float
    highest: float
    alone: bool
    circles: tuple[AlikeCircle, ...] = ()


class AlikeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Students of whom pairs are alike, and in which exercises, the most alike first."""

    students: tuple[str, ...]
    exercises: tuple[GroupExercise, ...]


class CorpusMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A student's file that is alike with one of a corpus, which is named by its digest (SHA-256) alone."""

    exercise: str
    student: str
    similarity: float
    lines: Lines
    corpus_lines: Lines
    digest: str
    corpus_digest: str


class CorpusSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """So many files of a corpus were compared, and told from this threshold on, which may be `learned`."""

    exercise: str
    files: int
    threshold: float
    learned: bool


class Similarity(msgspec.Struct, frozen=True, kw_only=True):
    """The alike pairs of a class, by exercise, the most alike first, and as groups, the strongest first.

    `threshold` is the one that was given; None if each exercise has its own. `corpus` has what is alike with
    the files of a corpus, one of each student and exercise.
    """

    format_version: int = FORMAT_VERSION
    threshold: float | None = None
    exercises: tuple[ExerciseSurvey, ...]
    pairs: tuple[SimilarPair, ...]
    groups: tuple[AlikeGroup, ...] = ()
    corpus: tuple[CorpusMatch, ...] = ()
    corpus_surveys: tuple[CorpusSurvey, ...] = ()

    def only(self, exercises: Collection[str]) -> Similarity:
        """What is alike in these exercises."""
        groups = []
        for group in self.groups:
            parts = tuple(part for part in group.exercises if part.exercise in exercises)
            there = {s for part in parts for circle in part.circles for s in circle.students}
            # An earlier grader did not keep who is alike in which exercise.
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


# --- for other tools ----------------------------------------------------------------------------------


def write_files(
    folder: Path,
    entries: Iterable[Entry],
    sources: Callable[[Entry], Mapping[str, bytes]],
    stubs: Mapping[str, bytes],
) -> int:
    """Write the counted attempts of a class into a new folder, and return how many files they are.

    For each exercise: `submissions/<student>/<exercise>.py`, where JPlag looks for submissions; the stub in
    `stub/`, its base code; and `info.csv`, the table from which Dolos reads paths and names.

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
