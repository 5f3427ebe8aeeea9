"""What the pages for staff show of one student: attempts, what counts and why, and the changes of points."""

from __future__ import annotations

import msgspec

from grader.gradebook import Gradebook
from grader.gradebook.adjusting import corrections_about, state_of
from grader.gradebook.corrections import Correction, correction_words
from grader.gradebook.policy import Weighed
from grader.gradebook.standing import choices, handed_in
from grader.gradebook.work import Work
from grader.results import Entry, ExerciseResult
from grader.serve.roles import Asker
from grader.text import number


class AttemptRow(msgspec.Struct, frozen=True):
    """A file for an exercise: when it came, the judge's points, and a note on whether it counts."""

    number: int
    submitted_at: str
    judged: float | None
    counts: bool
    note: str


class CorrectionRow(msgspec.Struct, frozen=True):
    """A change of points by its place in the file of corrections, from 0; `words` are its effect."""

    place: int
    correction: Correction
    words: str


class ExercisePart(msgspec.Struct, frozen=True):
    """An exercise of a student; `seen` is the digest of the state that is shown."""

    result: ExerciseResult
    source: bytes
    attempts: tuple[AttemptRow, ...]
    corrections: tuple[CorrectionRow, ...]
    seen: str


class StudentView(msgspec.Struct, frozen=True):
    """A student as staff sees the student."""

    entry: Entry
    exercises: tuple[ExercisePart, ...]


def student_view(book: Gradebook, asker: Asker, student: str) -> StudentView | None:
    """Return a student for the page; None if there is none, or staff does not reach the student."""
    info = book.student(student)
    if info is None or not asker.sees(info) or (entry := book.entry_of(student)) is None:
        return None
    work, sources = book.work(info), book.sources(entry)
    parts = []
    for result in entry.result.exercises:
        made = corrections_about(book, student, result.name)
        rows = [CorrectionRow(place, each, correction_words(each)) for place, each in made]
        parts.append(
            ExercisePart(
                result,
                sources.get(result.name, b""),
                tuple(_attempts(book, work, result.name)),
                tuple(rows),
                state_of(book, student, result.name),
            )
        )
    return StudentView(entry, tuple(parts))


def _attempts(book: Gradebook, work: Work, exercise: str) -> list[AttemptRow]:
    """Return the files for an exercise, the newest first."""
    rules = book.rules()
    if not (files := handed_in(work, rules, exercise)):
        return []
    weighed = {
        each.file.attempt: each for each in rules.policy.weighed(work.student, exercise, files)
    }
    choice = choices(work, rules).get(exercise)
    counting = choice.attempt.number if choice is not None else 0
    return [
        AttemptRow(
            file.attempt,
            file.submitted_at,
            file.judged,
            file.attempt == counting,
            _note(weighed.get(file.attempt), untouched=file.untouched),
        )
        for file in reversed(files)
    ]


def _note(weighed: Weighed | None, *, untouched: bool) -> str:
    """Say in a few words why a file counts less than the judge's points, or not at all."""
    if untouched:
        return "no work in it"
    if weighed is None:
        return "handed in again later"
    if weighed.is_beyond:
        return "over the limit of attempts"
    if weighed.is_closed:
        return "too late to count"
    return f"late, {number(weighed.lost)} % lost" if weighed.lost else ""
