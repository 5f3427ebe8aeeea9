"""Extensions on the server, as staff's pages and programs read and send them."""

from __future__ import annotations

import datetime

from grader.gradebook import Gradebook
from grader.gradebook.extending import exams_among, extension_words, extensions_of, state_of
from grader.results import StudentInfo
from grader.serve.http import Refusal
from grader.serve.messages import DueTime, ExtensionRow, ExtensionsState
from grader.serve.roles import Asker
from grader.submissions.times import read_time
from grader.text import listed, utc

_LONGEST_TIME = 40


def extensions_state(book: Gradebook, asker: Asker, student: str) -> ExtensionsState | None:
    """Return the extensions of a student; None if there is none, or staff does not reach the student."""
    info = book.student(student)
    return None if info is None or not asker.sees(info) else extensions_of_student(book, info)


def extensions_of_student(book: Gradebook, student: StudentInfo) -> ExtensionsState:
    """Return the due times and extensions of a student."""
    policy, due = book.policy, []
    for name in book.exercises:
        if (deadline := policy.deadline(student, name)) is not None:
            reason = deadline.extension.reason if deadline.extension is not None else ""
            due.append(DueTime(name, utc(deadline.due), utc(deadline.until), reason))
    rows = tuple(
        ExtensionRow(
            extension_words(each, policy.zone),
            each.exercises,
            each.until.isoformat(),
            each.reason,
            each.author,
            utc(each.time),
        )
        for _, each in extensions_of(book, student.id)
    )
    names = {each.exercise for each in due}
    exams = tuple(exams_among(book, names))
    choices = [
        (id_, f"all of {part.title}{', an exam' if part.exam else ''}")
        for id_, part in book.facts.parts.items()
        if names & {*part.exercises}
    ] or [("", f"all exercises{f' of {listed(exams)}, an exam' if exams else ''}")]
    choices += [
        (
            name,
            f"{name}, in the exam {listed(among)}"
            if (among := exams_among(book, [name]))
            else name,
        )
        for name in book.exercises
        if name in names
    ]
    return ExtensionsState(
        student.id,
        student.name,
        policy.rules.timezone,
        tuple(due),
        rows,
        tuple(choices) if due else (),
        exams,
        state_of(book, student),
    )


def time_of(text: str) -> datetime.datetime:
    """Return a time that a person typed; raises Refusal."""
    try:
        return read_time(text[:_LONGEST_TIME])
    except ValueError as error:
        raise Refusal(422, "Write a date and a time, such as 2026-12-03T23:59.") from error
