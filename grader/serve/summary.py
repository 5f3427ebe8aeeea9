"""The class at a glance, for the class page and for programs: one row for each student, and figures.

A summary of a large class takes seconds, so the newest one is kept for a moment.
"""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Collection

import msgspec

from grader.course.manifest import Course
from grader.exports.report.overview import ExerciseView, Figures, figures
from grader.exports.report.tally import Row, Tally
from grader.exports.report.triage import ClassMistake, class_mistakes
from grader.gradebook import Gradebook
from grader.gradebook.term import TermSoFar
from grader.gradebook.tokens import Role
from grader.judge.scoring import extra_credit_of, is_provisional, sum_of
from grader.results import Entry
from grader.serve.roles import Asker
from grader.serve.threads import BookThread
from grader.serve.views import TermStanding, so_far, term_standing
from grader.text import utc

# The class page reads thousands of results, at most this often however many people look.
_FRESH_SECONDS = 10.0


class PartPoints(msgspec.Struct, frozen=True):
    """A student's points for an assignment; `unjudged` exercises are missing in the score.

    `extra_credit` is the part of the score that is extra credit, and `held` says whether points of it are
    provisional, as in the rows of students.
    """

    score: float
    max_score: float
    unjudged: int
    absent: bool
    extra_credit: float
    held: bool


class StudentRow(msgspec.Struct, frozen=True):
    """A student with the points that count; `score` leaves out the `unjudged` exercises.

    For a whole course, `assignments` has the points for each assignment, and `term` the total so far.
    """

    id: str
    name: str
    section: str
    score: float
    max_score: float
    unjudged: int
    absent: bool
    attempts: int
    submitted_at: str
    extra_credit: float
    held: bool
    assignments: dict[str, PartPoints] = {}
    term: TermStanding | None = None


class PartSummary(msgspec.Struct, frozen=True):
    """The class in one assignment; a student who attempted nothing of it is absent.

    The discrimination of its exercises compares them with all other points of the course.
    """

    title: str
    figures: Figures
    exercises: list[ExerciseView]
    mistakes: list[ClassMistake]
    students: list[Row]


class ClassSummary(msgspec.Struct, frozen=True):
    """The class at a moment, and in each assignment of a whole course."""

    made_at: str
    figures: Figures
    exercises: list[ExerciseView]
    mistakes: list[ClassMistake]
    students: list[StudentRow]
    parts: dict[str, PartSummary]


class ClassSummaries:
    """The newest summaries of the class and of each assistant's sections.

    Reading them has its own gradebook connection, so no student waits for it.
    """

    def __init__(self, books: BookThread[Gradebook], course: Course) -> None:
        self.books, self._course = books, course
        self._of: dict[tuple[bool, tuple[str, ...]], _Summaries] = {}

    async def current(self, asker: Asker) -> ClassSummary:
        """Return the newest summary of the students that the asker may see."""
        # Without a section, an assistant sees nobody, and other staff see all students.
        reach = asker.role is Role.ASSISTANT, asker.sections
        if reach not in self._of:
            self._of[reach] = _Summaries(self.books, self._course, asker)
        return await self._of[reach].current()


class _Summaries:
    """The newest summary of one set of students."""

    def __init__(self, books: BookThread[Gradebook], course: Course, asker: Asker) -> None:
        self._books, self._course, self._asker = books, course, asker
        self._newest: ClassSummary | None = None
        self._made_at = 0.0
        self._making: asyncio.Task[ClassSummary] | None = None

    async def current(self) -> ClassSummary:
        """Return the newest summary; if it is older than some seconds, begin a new one for the next caller."""
        is_old = time.monotonic() - self._made_at > _FRESH_SECONDS
        if self._making is None and (self._newest is None or is_old):
            self._making = asyncio.create_task(self._made())
        if self._newest is not None and self._making is not None:
            # A small class is ready at once, a large one a little later.
            await asyncio.wait([self._making], timeout=0.1)
        if self._newest is None:
            assert self._making is not None
            return await asyncio.shield(self._making)
        return self._newest

    async def _made(self) -> ClassSummary:
        try:
            self._newest = await self._books.answer(
                lambda book: summarized_class(book, self._course, self._asker)
            )
            self._made_at = time.monotonic()
            return self._newest
        finally:
            self._making = None


def summarized_class(book: Gradebook, course: Course, asker: Asker) -> ClassSummary:
    """Return the summary of the students that the asker may see, as they are in the gradebook now."""
    tally, counts = Tally(), book.attempt_counts()
    assignments, not_open = book.facts.parts, book.not_open
    term = TermSoFar(book, course, datetime.datetime.now(datetime.UTC)) if assignments else None
    parts = {id_: Tally() for id_ in assignments}
    reach = asker.reach(book.students())
    of_some = (book.entry_of(student) for student in sorted(reach or ()))
    rows = []
    for whole in book.entries() if reach is None else filter(None, of_some):
        entry = so_far(whole, not_open)
        row = tally.add(entry, attempts=counts.get(entry.student.id, 0), alike=0)
        own = {id_: _in_part(row, entry, part.exercises) for id_, part in assignments.items()}
        for id_, part_row in own.items():
            parts[id_].rows.append(part_row)
        rows.append(
            msgspec.structs.replace(
                msgspec.convert(row, StudentRow, from_attributes=True),
                extra_credit=extra_credit_of(
                    result for result in entry.result.exercises if result.name not in not_open
                ),
                assignments=msgspec.convert(own, dict[str, PartPoints], from_attributes=True),
                term=None if term is None else term_standing(term.of(whole)),
            )
        )
    views = [ExerciseView(tally, exercise) for exercise in tally.exercises.values()]
    return ClassSummary(
        utc(time.time()),
        figures(tally),
        views,
        class_mistakes(views),
        rows,
        parts={
            id_: _part(part.title, parts[id_], [v for v in views if v.name in part.exercises])
            for id_, part in assignments.items()
        },
    )


def _part(title: str, tally: Tally, views: list[ExerciseView]) -> PartSummary:
    return PartSummary(title, figures(tally), views, class_mistakes(views), tally.rows)


def _in_part(row: Row, entry: Entry, names: Collection[str]) -> Row:
    """Return the row of a student with only these exercises; without work in them the student is absent."""
    exercises = [result for result in entry.result.exercises if result.name in names]
    score, max_score = sum_of(exercises)
    is_begun = any(result.attempted or result.score for result in exercises)
    cells = {result.name: row.cells[result.name] for result in exercises}
    return msgspec.structs.replace(
        row,
        score=score,
        max_score=max_score,
        cells=cells,
        absent=not is_begun,
        extra_credit=extra_credit_of(exercises),
        held=is_provisional(exercises),
    )
