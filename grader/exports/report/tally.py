"""The tally of a class, for the pages of the report: one row for each student, a few bytes for each test.

The entries themselves are too large to keep: a result with its messages is a hundred kilobytes. Messages of
failed tests that differ only in numbers are one mistake.
"""

from __future__ import annotations

import unicodedata
from array import array
from collections.abc import Container, Iterator, Sequence

import msgspec

from grader.findings import first_line
from grader.judge.scoring import extra_credit_of, is_provisional, judged_points, sum_of
from grader.results import (
    Entry,
    ExerciseResult,
    Finding,
    Outcome,
    Status,
    StudentInfo,
    TestResult,
    Visibility,
)
from grader.text import rounded

_SAYING = (Outcome.FAILED, Outcome.ERROR, Outcome.TIMEOUT)
# Limits of compared text and of kept messages, since a message can contain a student's own text.
_LONGEST = 300
_MAX_GROUPS = 5000


class Cell(msgspec.Struct, frozen=True):
    """One exercise of one student. If `missing`, there is no file or only an empty one, which is not wrong.

    If `waiting`, there is no verdict yet, but no fault of the grader either. `practice` counts in no total.
    """

    status: Status
    score: float
    max_score: float
    missing: bool = False
    waiting: bool = False
    practice: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the total is not final without its verdict."""
        return self.status is Status.UNJUDGED and not self.practice

    @property
    def share(self) -> float | None:
        """Return the share of points earned, 0 to 1; None without a verdict or without points."""
        is_known = self.status is not Status.UNJUDGED and self.max_score
        return self.score / self.max_score if is_known else None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One student in the table: `score` leaves out `unjudged` exercises, and is then not final.

    `extra_credit` is the part of the score that is extra credit. If it is `held`, points of it are provisional
    until a person has looked at a file.
    """

    id: str
    name: str
    student: StudentInfo
    score: float
    max_score: float
    cells: dict[str, Cell]
    chapters: dict[str, Cell]
    attempt: int
    attempts: int
    submitted_at: str
    late: bool
    alike: int
    absent: bool = False
    extra_credit: float = 0.0
    held: bool = False

    @property
    def section(self) -> str:
        """The student's cell of sections in the roster, which may name several."""
        return self.student.section

    @property
    def unjudged(self) -> int:
        """The number of exercises without a verdict, without practice."""
        return sum(cell.is_open for cell in self.cells.values())

    @property
    def faults(self) -> int:
        """The number of these with a fault of the grader; the others wait for their verdict."""
        return sum(cell.is_open and not cell.waiting for cell in self.cells.values())

    @property
    def share(self) -> float:
        """Return the share of points earned, 0 to 1."""
        return self.score / self.max_score if self.max_score else 0.0

    @property
    def untouched(self) -> bool:
        """Return whether a file of the course was handed in, but no exercise attempted."""
        return self.idle and not self.unusable

    @property
    def unusable(self) -> bool:
        """Return whether something was handed in, but no file that could be judged."""
        return self.idle and bool(self.cells) and all(c.missing for c in self.cells.values())

    @property
    def idle(self) -> bool:
        """Return whether something was handed in, but no exercise attempted, for whichever reason."""
        return not self.absent and all(
            cell.missing or cell.status is Status.NOT_ATTEMPTED for cell in self.cells.values()
        )

    @property
    def sought(self) -> str:
        """Return name and id without accents, as `report.js` compares them with a search."""
        return folded(f"{self.name} {self.id}")


# Letters without a decomposition, and how people type them.
_PLAIN = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ß": "ss", "æ": "ae", "œ": "oe", "ı": "i"}  # noqa: RUF001  # as in names
)


def folded(text: str) -> str:
    """Return a name in plain lower-case letters: Łukasz Gödel becomes "lukasz godel"."""
    parts = unicodedata.normalize("NFKD", text.casefold().translate(_PLAIN))
    return "".join(letter for letter in parts if not unicodedata.combining(letter))


def chapter_cells(exercises: Sequence[ExerciseResult]) -> dict[str, Cell]:
    """Return the exercises of each chapter as one cell: unjudged if any is, not attempted if none is.

    Practice is left out, except in a chapter that has nothing else.
    """
    chapters: dict[str, list[ExerciseResult]] = {}
    for exercise in exercises:
        chapters.setdefault(exercise.chapter, []).append(exercise)
    cells = {}
    for chapter, whole in chapters.items():
        counting = [result for result in whole if not result.practice]
        results = counting or [msgspec.structs.replace(result, practice=False) for result in whole]
        statuses = {result.status for result in results}
        status = next(iter(statuses)) if len(statuses) == 1 else Status.PARTIAL
        if Status.UNJUDGED in statuses:
            status = Status.UNJUDGED
        cells[chapter] = Cell(status, *sum_of(results), practice=not counting)
    return cells


class Mistake(msgspec.Struct, frozen=True):
    """A message that several students got, in the words of the first, and the titles of its tests.

    `rows` are the students' positions in the tally.
    """

    rows: tuple[int, ...]
    message: str
    tests: tuple[str, ...]


class _Group:
    def __init__(self, message: str) -> None:
        self.message = message
        self.rows = array("I")
        self.tests: dict[str, None] = {}


class Mistakes:
    """The messages of one exercise, distinguished by words but not by numbers."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def add(self, result: ExerciseResult, row: int) -> None:
        """Count the messages of one student's exercise, each once."""
        seen: set[str] = set()
        for test in result.tests:
            if test.outcome not in _SAYING or not test.message:
                continue
            message = (first_line(test.finding) or test.message)[:_LONGEST]
            kind = _kind(test.finding) or message
            if kind not in self._groups:
                if len(self._groups) >= _MAX_GROUPS:
                    continue
                self._groups[kind] = _Group(message)
            group = self._groups[kind]
            group.tests.setdefault(test.title)
            if kind not in seen:
                seen.add(kind)
                group.rows.append(row)

    def __len__(self) -> int:
        """Return the number of different messages."""
        return len(self._groups)

    def common(self, most: int) -> Iterator[Mistake]:
        """Yield the messages that at least two students got, the most frequent first."""
        ordered = sorted(self._groups.items(), key=lambda item: (-len(item[1].rows), item[0]))
        for _, group in ordered[:most]:
            if len(group.rows) > 1:
                yield Mistake(tuple(group.rows), group.message, tuple(group.tests))


def _kind(finding: Finding | None) -> str:
    """Return the part of a finding that does not depend on one student's values."""
    return "" if finding is None else "\n".join((finding.sentence, *finding.plain))


class TestTally:
    """One test: `rows` are the positions of students who attempted it; `passed` is 1 or 0 for each."""

    __test__ = False  # pytest collects classes by this prefix

    def __init__(self, test: TestResult) -> None:
        self.name = test.name
        self.title = test.title
        self.visibility: Visibility = test.visibility
        self.rows = array("I")
        self.passed = array("B")
        self.worth = array("d")


class ExerciseTally:
    """One exercise: the students who attempted it, their times, the judge's points, and messages of tests.

    `missing`, unreadable and empty files are counted separately from stubs.
    """

    def __init__(self, result: ExerciseResult) -> None:
        self.name = result.name
        self.title = result.title
        self.chapter = result.chapter
        self.max_score = result.max_score
        self.practice = result.practice
        self.statuses: dict[Status, int] = dict.fromkeys(Status, 0)
        self.missing = 0
        self.rows = array("I")
        self.scores = array("d")
        self.seconds = array("d")
        self.tests: dict[tuple[Visibility, str], TestTally] = {}
        self.mistakes = Mistakes()

    def add(self, row: int, result: ExerciseResult) -> None:
        """Add one student's exercise, if it was attempted and judged."""
        self.statuses[result.status] += 1
        if not result.attempted or result.status is Status.UNJUDGED:
            return
        self.rows.append(row)
        self.scores.append(judged_points(result))
        self.seconds.append(result.duration_seconds)
        self.mistakes.add(result, row)
        weights = sum(test.max_score for test in result.tests) or 1.0
        for test in result.tests:
            key = (test.visibility, test.name)
            tally = self.tests.setdefault(key, TestTally(test))
            tally.rows.append(row)
            tally.passed.append(test.outcome is Outcome.PASSED)
            # Points that are not in the total must not be subtracted from it in `paired`.
            worth = 0.0 if result.practice else result.max_score
            tally.worth.append(worth * test.max_score / weights)


class Tally:
    """The class so far."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.exercises: dict[str, ExerciseTally] = {}

    def add(
        self, entry: Entry, *, attempts: int, alike: int, files: Container[str] | None = None
    ) -> Row:
        """Add a student and return the row; `files` are the exercises with a readable file."""
        result = entry.result
        # Exercises without a readable file; a person may have given points for one.
        missing = {
            e.name
            for e in result.exercises
            if not e.attempted
            and (e.status is Status.ERROR or (files is not None and e.name not in files))
        }
        row = Row(
            id=entry.student.id,
            name=entry.student.name,
            student=entry.student,
            score=result.score,
            max_score=result.max_score,
            cells={
                e.name: Cell(
                    e.status, e.score, e.max_score, e.name in missing, e.waiting, e.practice
                )
                for e in result.exercises
            },
            chapters=chapter_cells(result.exercises),
            attempt=entry.attempt,
            attempts=max(attempts, entry.attempt),
            submitted_at=entry.submitted_at,
            late=entry.late,
            alike=alike,
            absent=entry.absent,
            extra_credit=extra_credit_of(result.exercises),
            held=is_provisional(result.exercises),
        )
        for exercise in result.exercises:
            if exercise.name not in self.exercises:
                self.exercises[exercise.name] = ExerciseTally(exercise)
            if exercise.name in missing:
                self.exercises[exercise.name].missing += 1
            else:
                self.exercises[exercise.name].add(len(self.rows), exercise)
        self.rows.append(row)
        return row

    @property
    def final(self) -> list[Row]:
        """Return the rows with final scores: fully judged, and with something handed in."""
        return [row for row in self.rows if not row.unjudged and not row.absent]

    def paired(self, tally: TestTally) -> Iterator[tuple[float, float]]:
        """Yield a pair for each student: 1 for a passed test, else 0, and all of the student's other points."""
        for row, passed, worth in zip(tally.rows, tally.passed, tally.worth, strict=True):
            if not self.rows[row].unjudged:
                yield float(passed), rounded(self.rows[row].score - passed * worth)

    def paired_exercise(self, tally: ExerciseTally) -> Iterator[tuple[float, float]]:
        """Yield a pair for each student: the points in an exercise, and the points in all others."""
        for row, score in zip(tally.rows, tally.scores, strict=True):
            if not self.rows[row].unjudged:
                counted = 0.0 if tally.practice else self.rows[row].cells[tally.name].score
                yield score, rounded(self.rows[row].score - counted)
