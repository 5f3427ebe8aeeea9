"""Entries for a person to look at after a batch: faults, timeouts, unreadable files, odd code.

Entries change no score and are not verdicts on students: an import of `ctypes` may have an innocent reason.
They show where to look first. Points of a file with odd code are held until a person has looked.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from grader.course.manifest import Exercise
from grader.course.stub import Stub
from grader.grading import foreign_names
from grader.results import ExerciseResult, Outcome, Status
from grader.submissions import ExerciseFile, State
from grader.submissions.unwritten import has_no_code, names_to_write, written_but_raising
from grader.text import listed_names


class Reason(enum.Enum):
    """A reason to look; reasons that may cost points come first."""

    FAULT = "not judged"
    UNREADABLE = "unreadable"
    MISNAMED = "misnamed"
    NO_POINTS = "no points"
    OTHER_FILE = "other file"
    DRAFT = "draft"
    TIMEOUT = "timeout"
    ODD_CODE = "odd code"

    @property
    def costs_points(self) -> bool:
        """Whether somebody may have lost points wrongly."""
        return self is not Reason.ODD_CODE

    @property
    def rank(self) -> int:
        """The place among the reasons, 0 for the most pressing one."""
        return [*Reason].index(self)


class Attention(msgspec.Struct, frozen=True):
    """One thing to look at, in one or several exercises."""

    kind: Reason
    student: str
    exercises: tuple[str, ...]
    what: str

    @property
    def where(self) -> str:
        """The exercises in words."""
        return listed_names(self.exercises)


# The kinds that come from reading a download: they stay listed while it is not read again.
OF_DOWNLOADS = (Reason.UNREADABLE, Reason.MISNAMED, Reason.NO_POINTS, Reason.OTHER_FILE)

_LINES = re.compile(r"^line \d+ | \(and on \d+ more lines?\)")


def attention(
    student: str, exercise: Exercise, handed: ExerciseFile, result: ExerciseResult
) -> list[Attention]:
    """Return the entries about a student's exercise, each with a sentence on its reason."""
    found: list[tuple[Reason, str]] = []
    if result.status is Status.UNJUDGED:
        found.append((Reason.FAULT, result.message))
    if (problem := _problem(handed, attempted=result.attempted)) is not None:
        said = result.message if result.settled else handed.problem
        found.append((problem, handed.problem if handed.source is None else said))
    if handed.source is not None:
        if result.settled and handed.is_foreign:
            found.append((Reason.UNREADABLE, result.message))
        elif names := foreign_names(result, handed.source):
            found.append((Reason.UNREADABLE, names))
    late = next((test for test in result.tests if test.outcome is Outcome.TIMEOUT), None)
    if late is not None:
        found.append((Reason.TIMEOUT, late.message or result.message))
    found += [(Reason.ODD_CODE, what) for what in result.held]
    return [Attention(kind, student, (exercise.id,), what) for kind, what in found]


def passed_over(
    student: str, exercise: Exercise, handed: ExerciseFile, *, earlier: bool = True
) -> Iterator[Attention]:
    """Yield an entry if a file is unreadable; with `earlier`, an earlier file counts meanwhile."""
    if handed.source is None and (problem := _problem(handed)) is not None:
        until = " Until then the file of an earlier attempt counts." if earlier else ""
        yield Attention(problem, student, (exercise.id,), f"{handed.problem}{until}")


def stub_after_work(student: str, exercise: Exercise) -> Attention:
    """Return the entry for a newest file without work, if an earlier attempt has work."""
    return Attention(
        Reason.NO_POINTS,
        student,
        (exercise.id,),
        "The newest file has no work, but an earlier attempt has: if the newest attempt counts, it earns 0.",
    )


def without_code(
    student: str, exercise: Exercise, file: ExerciseFile, stub: Stub
) -> Attention | None:
    """Return the entry for a file that earns nothing, though it may not be the file that the student meant.

    It is empty, as after a failed upload, has only comments, is not valid Python, lacks the names of the stub,
    or still raises NotImplementedError in each function with new code. None for any other file, and for one
    that is not Python at all, which is listed as unreadable.
    """
    look = file.look(stub)
    match look.state:
        case State.EMPTY:
            what = "The file is empty; its upload may have failed."
        case State.INVALID if not look.is_foreign:
            what = f"line {look.line} is not valid Python, so the file was not run."
        case State.EDITED:
            what = _why_without_effect(file.source or b"", stub.source)
        case _:
            what = ""
    return Attention(Reason.NO_POINTS, student, (exercise.id,), what) if what else None


def _why_without_effect(source: bytes, stub: bytes) -> str:
    """Return why valid code earns nothing, empty if it may earn points."""
    if has_no_code(source):
        return "The file has only comments."
    if names := names_to_write(source, stub):
        return f"The file does not define {listed_names(names)}, as the stub does."
    if names := written_but_raising(source, stub):
        return f"The code in {listed_names(names)} still raises the stub's NotImplementedError."
    return ""


def left_in_the_editor(student: str, exercise: str, saved: str, due: str) -> Attention:
    """Return the entry for an exercise that was due, with a draft but no file handed in."""
    what = (
        f"No file was handed in until {due}, but a draft was saved at {saved}. "
        "If you give more time, the student can hand it in."
    )
    return Attention(Reason.DRAFT, student, (exercise,), what)


def _problem(handed: ExerciseFile, *, attempted: bool = False) -> Reason | None:
    """Return why a person has to look at a file with a `problem`; None without one, and without a file.

    If the file is an attempt, the other files beside it may not matter; if it is not, the work is in them.
    """
    # A file that was kept in the gradebook still has its `problem`, but no longer `seems_misnamed`.
    if handed.seems_misnamed or (handed.source is not None and handed.problem):
        return Reason.OTHER_FILE if attempted else Reason.MISNAMED
    return Reason.UNREADABLE if handed.source is None and handed.path is not None else None


def nothing_found(
    student: str, exercises: Iterable[Exercise], files: Mapping[str, ExerciseFile]
) -> Iterator[Attention]:
    """Yield an entry for a submission without any file of the course."""
    names = tuple(exercise.id for exercise in exercises)
    is_there = (
        f.source is not None or f.path is not None or f.seems_misnamed for f in files.values()
    )
    if names and not any(is_there):
        yield Attention(Reason.UNREADABLE, student, names, files[names[0]].problem)


def most_pressing_first(entries: Iterable[Attention]) -> tuple[Attention, ...]:
    """Return the entries sorted by kind and student; merge equal entries of several exercises."""
    same: dict[tuple[Reason, str, str], list[str]] = {}
    for entry in entries:
        same.setdefault((entry.kind, entry.student, entry.what), []).extend(entry.exercises)
    for (kind, student, what), exercises in [*same.items()]:
        misnamed = Reason.MISNAMED, student, what
        # Earlier graders called every other file misnamed.
        if kind is Reason.OTHER_FILE and {*same.get(misnamed, ())} <= {*exercises}:
            same.pop(misnamed, None)
    merged = [
        Attention(kind, student, tuple(dict.fromkeys(exercises)), what)
        for (kind, student, what), exercises in same.items()
    ]
    return in_order(merged)


def in_order(entries: Iterable[Attention]) -> tuple[Attention, ...]:
    """Return the entries sorted by kind and student."""
    return tuple(sorted(entries, key=lambda entry: (entry.kind.rank, entry.student)))


class AttentionGroup(msgspec.Struct, frozen=True):
    """Equal entries of several students."""

    kind: Reason
    where: str
    what: str
    students: tuple[str, ...]


def grouped(attention: Iterable[Attention]) -> dict[Reason, list[AttentionGroup]]:
    """Return groups of equal entries by kind, the most pressing first.

    Within a kind, every student's first entry comes before anyone's second, so that thousands of entries about
    one student do not hide the others.
    """
    same: dict[tuple[Reason, tuple[str, ...], str], list[Attention]] = {}
    # The lowest rank of a group's entries among the entries of this kind about a student.
    ranks: dict[tuple[Reason, tuple[str, ...], str], int] = {}
    counts: dict[tuple[Reason, str], int] = {}
    for entry in attention:
        # Odd code is the same in any exercise; the other kinds belong to one.
        place = () if entry.kind is Reason.ODD_CODE else entry.exercises
        key = entry.kind, place, _LINES.sub("", entry.what)
        rank = counts[entry.kind, entry.student] = counts.get((entry.kind, entry.student), -1) + 1
        ranks[key] = min(rank, ranks.get(key, rank))
        same.setdefault(key, []).append(entry)
    ranked: list[tuple[tuple[int, int, int], AttentionGroup]] = []
    for key, entries in same.items():
        kind, _, words = key
        texts = {entry.what for entry in entries}
        names = [name for entry in entries for name in entry.exercises]
        students = tuple(dict.fromkeys(entry.student for entry in entries))
        # Keep the line number if all texts are equal.
        what = entries[0].what if len(texts) == 1 else words
        group = AttentionGroup(kind, listed_names([*dict.fromkeys(names)]), what, students)
        ranked.append(((kind.rank, ranks[key], -len(students)), group))
    groups: dict[Reason, list[AttentionGroup]] = {}
    for _, group in sorted(ranked, key=lambda pair: pair[0]):
        groups.setdefault(group.kind, []).append(group)
    return groups


class StudentAttention(msgspec.Struct, frozen=True):
    """The first entries about one student, and the number of further ones."""

    student: str
    entries: tuple[Attention, ...]
    more: int


def by_student(attention: Iterable[Attention], lines: int) -> list[StudentAttention]:
    """Return the entries by student, about `lines` in total.

    Every student gets the same number, at least one, so that one student's thousands do not hide the others.
    """
    entries_of: dict[str, list[Attention]] = {}
    for entry in attention:
        entries_of.setdefault(entry.student, []).append(entry)
    room = max(lines // max(len(entries_of), 1), 1)
    return [
        StudentAttention(student, tuple(entries[:room]), len(entries[room:]))
        for student, entries in entries_of.items()
    ]
