"""More time for a student: make the extension, for `grade adjust` and for the server.

It is a table of the file of corrections, with author and time, and works like an extension of the policy.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Collection, Sequence

import msgspec

from grader.errors import SubmissionError
from grader.gradebook.book import Gradebook
from grader.gradebook.corrections import GivenExtension, now, one_line
from grader.gradebook.times import instant, local
from grader.results import StudentInfo
from grader.text import listed, nearest

_MAX_NAMES = 5


def exercises_named(book: Gradebook, name: str) -> tuple[str, ...]:
    """Return the exercises that a person named: one, all of an assignment, or all if the name is empty.

    Raises SubmissionError for another name.
    """
    if not name:
        return book.exercises
    if name in book.exercises:
        return (name,)
    parts = book.facts.assignments
    if name in parts:
        return tuple(each for each in book.exercises if each in parts[name].exercises)
    advice = nearest(name, [*book.exercises, *parts])
    raise SubmissionError(f"{name!r} is neither an exercise nor an assignment here. {advice}")


def exams_among(book: Gradebook, exercises: Collection[str]) -> list[str]:
    """Return the titles of the exams that have any of these exercises."""
    parts = book.facts.assignments.values()
    return [part.title for part in parts if part.exam and {*part.exercises} & {*exercises}]


def new_extension(
    book: Gradebook,
    student: StudentInfo,
    exercises: Sequence[str],
    *,
    until: datetime.datetime,
    reason: str,
    author: str,
) -> GivenExtension:
    """Return an extension for the exercises that gain time by it; it is not kept yet.

    `until` is in the time zone of the class unless it has an offset.

    Raises SubmissionError if it has no reason, or no exercise gains.
    """
    policy = book.policy
    zone = policy.zone or datetime.UTC
    if not reason.strip():
        raise SubmissionError("Give a reason: the student reads it with the due time.")
    try:
        end = instant(until.replace(microsecond=0), zone)
        is_last = end.year == datetime.MAXYEAR
    except OverflowError:
        is_last = True
    if is_last:
        # Converted to another time zone, this time may not exist.
        raise SubmissionError(f"The year {until.year} is out of range.")
    due = {name: policy.deadline(student, name) for name in exercises}
    dated = {name: deadline.until for name, deadline in due.items() if deadline is not None}
    if not dated:
        names = listed(list(exercises), _MAX_NAMES)
        raise SubmissionError(f"There is nothing to extend: {names} is never due.")
    gain = tuple(name for name, before in dated.items() if end > before)
    if not gain:
        latest = max(dated, key=lambda name: dated[name])
        raise SubmissionError(
            f"An extension only gives more time: {latest} is already due at {local(dated[latest], zone)}."
        )
    return GivenExtension(
        student=student.id,
        exercises=gain,
        until=end.astimezone(zone),
        reason=one_line(reason),
        author=one_line(author),
        time=now(),
    )


def extensions_of(book: Gradebook, student: str) -> list[tuple[int, GivenExtension]]:
    """Return the extensions that people gave a student, each with its index in the file."""
    return [(place, e) for place, e in enumerate(book.extensions()) if e.student == student]


def state_of(book: Gradebook, student: StudentInfo) -> str:
    """Return a digest of what a decision rests on: a student's extensions and due times."""
    policy = book.policy
    due = (policy.deadline(student, name) for name in book.exercises)
    state = (
        # Leave out the indexes, which other students' extensions change.
        [extension for _, extension in extensions_of(book, student.id)],
        [None if deadline is None else (deadline.due, deadline.until) for deadline in due],
    )
    return hashlib.sha256(msgspec.json.encode(state)).hexdigest()[:32]


def extension_words(extension: GivenExtension, zone: datetime.tzinfo | None) -> str:
    """Return an extension in a few words: until 2026-12-03 23:59 CET for glu, relu."""
    return (
        f"until {local(extension.until, zone)} for {', '.join(extension.exercises) or 'everything'}"
    )
