"""The class at a glance, by the report's own code; made anew when it is looked at."""

from __future__ import annotations

import asyncio
import time

import msgspec

from grader.exports.report.overview import ExerciseView, Figures, figures
from grader.exports.report.tally import Tally
from grader.exports.report.triage import ClassMistake, class_mistakes
from grader.gradebook import Gradebook
from grader.serve.threads import BookThread
from grader.serve.views import iso

# Thousands of results are read for it: not more often than this, however many look.
_FRESH_SECONDS = 10.0


class StudentRow(msgspec.Struct, frozen=True):
    """A student of the class with the points that count; `unjudged` exercises are missing in the score."""

    id: str
    name: str
    section: str
    score: float
    max_score: float
    unjudged: int
    absent: bool
    attempts: int
    submitted_at: str


class ClassSummary(msgspec.Struct, frozen=True):
    """The class as of a moment."""

    made_at: str
    figures: Figures
    exercises: list[ExerciseView]
    mistakes: list[ClassMistake]
    students: list[StudentRow]


class ClassSummaries:
    """The newest summary; it reads with a gradebook of its own, so that no student waits for it."""

    def __init__(self, books: BookThread[Gradebook]) -> None:
        self._books = books
        self._newest: ClassSummary | None = None
        self._made_at = 0.0
        self._making: asyncio.Task[ClassSummary] | None = None

    async def current(self) -> ClassSummary:
        """The newest summary; one that is older than some seconds is made anew for the next one who asks."""
        is_old = time.monotonic() - self._made_at > _FRESH_SECONDS
        if self._making is None and (self._newest is None or is_old):
            self._making = asyncio.create_task(self._made())
        if self._newest is not None and self._making is not None:
            # A small class is there at once, a large one a little later.
            await asyncio.wait([self._making], timeout=0.1)
        if self._newest is None:
            assert self._making is not None
            return await asyncio.shield(self._making)
        return self._newest

    async def _made(self) -> ClassSummary:
        try:
            self._newest = await self._books.answer(summarized_class)
            self._made_at = time.monotonic()
            return self._newest
        finally:
            self._making = None


def summarized_class(book: Gradebook) -> ClassSummary:
    """The class as the gradebook has it now."""
    tally, counts = Tally(), book.attempt_counts()
    for entry in book.entries():
        tally.add(entry, attempts=counts.get(entry.student.id, 0), alike=0)
    views = [ExerciseView(tally, each) for each in tally.exercises.values()]
    rows = [
        StudentRow(
            row.id,
            row.name,
            row.section,
            row.score,
            row.max_score,
            row.unjudged,
            row.absent,
            row.attempts,
            row.submitted_at,
        )
        for row in tally.rows
    ]
    return ClassSummary(iso(time.time()), figures(tally), views, class_mistakes(views), rows)
