"""Data of the pages for staff: a student's attempts and changes of points, and the files to mark."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from grader.gradebook import Gradebook, marking, queue
from grader.gradebook.adjusting import class_state_of, corrections_about, released_mates, state_of
from grader.gradebook.anonymous import pseudonyms_of, student_of
from grader.gradebook.corrections import Correction, correction_words
from grader.gradebook.facts import Remarks
from grader.gradebook.policy import Weighed
from grader.gradebook.standing import choices, handed_in, with_late_days
from grader.gradebook.work import Work
from grader.judge.scoring import extra_words
from grader.results import Entry, ExerciseResult, Status, StudentInfo
from grader.serve.extensions import extensions_of_student
from grader.serve.messages import (
    ClassPoints,
    ClassState,
    ExtensionsState,
    PointsState,
    StaffRequest,
)
from grader.serve.roles import Asker
from grader.serve.views import so_far
from grader.text import number

# To an assistant, a student of another section does not exist.
_ELSEWHERE = "a member in another section"


class AttemptRow(msgspec.Struct, frozen=True):
    """A file for an exercise: its time, the judge's points, and a note on why it counts less or not.

    If another member of the team handed it in, `by` is this member, or says so without a name if the asker may
    not see the member.
    """

    number: int
    submitted_at: str
    judged: float | None
    counts: bool
    note: str
    by: str = ""


class CorrectionRow(msgspec.Struct, frozen=True):
    """A change of points; `words` are its effect."""

    correction: Correction
    words: str


class ExercisePart(msgspec.Struct, frozen=True):
    """An exercise of a student; `seen` is the digest of the state shown.

    A release of held points counts for the `mates`, too, who are others of the team with this file.
    """

    result: ExerciseResult
    source: bytes
    attempts: tuple[AttemptRow, ...]
    corrections: tuple[CorrectionRow, ...]
    seen: str
    mates: tuple[str, ...] = ()


class StudentView(msgspec.Struct, frozen=True):
    """A student, for staff; `extra` are the words after the total, if it has extra credit."""

    entry: Entry
    extra: str
    exercises: tuple[ExercisePart, ...]
    extensions: ExtensionsState


def student_view(book: Gradebook, asker: Asker, student: str) -> StudentView | None:
    """Return a student; None if there is none, or the asker has no access."""
    info = book.student(student)
    if info is None or not asker.sees(info) or (entry := book.entry_of(student)) is None:
        return None
    not_open = book.not_open
    entry = so_far(entry, not_open)
    extra = extra_words(each for each in entry.result.exercises if each.name not in not_open)
    work, sources = book.work(info), book.sources(entry)
    parts = []
    for result in entry.result.exercises:
        corrections = corrections_about(book, student, result.name)
        rows = [CorrectionRow(each, correction_words(each)) for _, each in corrections]
        mates = released_mates(book, student, result.name, asker.sees) if result.held else []
        parts.append(
            ExercisePart(
                result,
                sources.get(result.name, b""),
                tuple(_attempts(book, asker, work, result.name)),
                tuple(rows),
                state_of(book, student, result.name),
                tuple(mates),
            )
        )
    return StudentView(entry, extra, tuple(parts), extensions_of_student(book, info))


def _attempts(book: Gradebook, asker: Asker, work: Work, exercise: str) -> list[AttemptRow]:
    """Return the files for an exercise, newest first."""
    rules = with_late_days(work, book.rules())
    if not (files := handed_in(work, rules, exercise)):
        return []
    weighed = {
        each.file.attempt: each for each in rules.policy.weighed(work.student, exercise, files)
    }
    choice = choices(work, rules).get(exercise)
    counting = choice.attempt.number if choice is not None else 0
    by_mates = {
        attempt: mate
        if (info := book.student(mate)) is not None and asker.sees(info)
        else _ELSEWHERE
        for attempt, mate in queue.handed_in_by(book, work.student.id).items()
    }
    by = {attempt.number: by_mates.get(attempt.id, "") for attempt in work.attempts}
    return [
        AttemptRow(
            file.attempt,
            file.submitted_at,
            file.judged,
            # If no file may count, the newest one is shown, but counts for nothing.
            file.attempt == counting
            and ((each := weighed.get(file.attempt)) is None or each.may_count),
            _note(weighed.get(file.attempt), untouched=file.untouched),
            by[file.attempt],
        )
        for file in reversed(files)
    ]


def _note(weighed: Weighed | None, *, untouched: bool) -> str:
    """Return a few words on why a file counts for less than the judge's points, or not at all."""
    if untouched:
        return "no work in it"
    if weighed is None:
        return "handed in again later"
    if weighed.is_beyond:
        return "over the limit of attempts"
    if weighed.is_closed:
        return "too late to count"
    return f"late, {number(weighed.lost)} % lost" if weighed.lost else ""


# --- the same for programs --------------------------------------------------------------------------


def class_state(book: Gradebook, exercise: str, said: str = "") -> ClassState | None:
    """Return the points of the class for an exercise; None if there is no such exercise."""
    if exercise not in book.exercises:
        return None
    students = [
        ClassPoints(
            entry.student.id,
            entry.student.name,
            result.score,
            result.max_score,
            result.status is Status.UNJUDGED,
        )
        for entry in book.entries()
        for result in entry.result.exercises
        if result.name == exercise
    ]
    return ClassState(exercise, tuple(students), class_state_of(book, exercise), said)


def points_state(
    book: Gradebook, asker: Asker, student: str, exercise: str, mates: Sequence[str] = ()
) -> PointsState | None:
    """Return the points of a student; None if there are none, or the asker has no access."""
    info = book.student(student)
    if info is None or not asker.sees(info) or (entry := book.entry_of(student)) is None:
        return None
    result = next((each for each in entry.result.exercises if each.name == exercise), None)
    if result is None:
        return None
    seen = state_of(book, student, exercise)
    held = bool(result.held)
    score, worth = result.score, result.max_score
    return PointsState(student, info.name, exercise, score, worth, held, seen, tuple(mates))


def staff_requests(book: Gradebook, asker: Asker, number: int = 0) -> list[StaffRequest]:
    """Return the requests of the students that staff reaches, oldest first; with a `number`, only that one."""
    names, reach, rows = book.names(), asker.reach(book.students()), []
    for request in book.requests():
        if number not in (0, request.number) or (
            reach is not None and request.student not in reach
        ):
            continue
        entry = book.entry_of(request.student)
        exercises = entry.result.exercises if entry is not None else ()
        result = next((e for e in exercises if e.name == request.exercise), None)
        is_open = result is None or result.status is Status.UNJUDGED
        rows.append(
            StaffRequest(
                request,
                names.get(request.student, ""),
                None if result is None or is_open else result.score,
                0.0 if result is None else result.max_score,
                entry if number else None,
            )
        )
    return rows


# --- files to mark ----------------------------------------------------------------------------------


class ListedFile(msgspec.Struct, frozen=True):
    """A file in the list of files to mark; `name` is its student's pseudonym.

    It is `waiting` if it is still to be marked.
    """

    name: str
    waiting: bool


class MarkView(msgspec.Struct, frozen=True):
    """A file to mark, as it is shown; `seen` is the digest of that state.

    `name` is the pseudonym of `student`, who may share the file with a team.
    """

    name: str
    student: StudentInfo
    file: marking.FileToMark
    remarks: Remarks
    marks: tuple[Correction, ...]
    seen: str


def files_to_mark(
    book: Gradebook, asker: Asker, exercise: str, *, anonymous: bool
) -> list[ListedFile]:
    """Return the files of an exercise that the asker may mark, in the order of the list."""
    reach, pseudonym = asker.reach(book.students()), pseudonyms_of(book)
    corrections = book.corrections()
    files = [
        file
        for file in marking.files(book, exercise)
        if reach is None or reach.issuperset(file.students)
    ]
    files.sort(key=lambda file: pseudonym(file.students[0]) if anonymous else file.students[0])
    return [
        ListedFile(pseudonym(file.students[0]), marking.is_waiting(book, corrections, file))
        for file in files
    ]


def mark_view(book: Gradebook, asker: Asker, exercise: str, name: str) -> MarkView | None:
    """Return a file to mark; None if there is none, or the asker has no access."""
    student = student_of(book, name)
    if student is None or not asker.sees(student):
        return None
    file, reach = marking.shared_file_of(book, student, exercise), asker.reach(book.students())
    if file is None or (reach is not None and not reach.issuperset(file.students)):
        return None
    return MarkView(
        name,
        student,
        file,
        marking.remarks_of(book, file),
        tuple(marking.marks_of(book, file)),
        marking.state_of(book, file),
    )
