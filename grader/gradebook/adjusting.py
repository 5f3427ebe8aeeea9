"""A person's change of points: make the correction, for `grade adjust` and for the pages of the server.

Somebody decides by what is shown. `state_of` is a digest of that, so that a change by another person in between
is noticed.
"""

from __future__ import annotations

import datetime
import hashlib

import msgspec

from grader.errors import SubmissionError
from grader.gradebook.book import Gradebook
from grader.gradebook.corrections import Correction, Kind, refuse_pointless
from grader.gradebook.standing import choices
from grader.judge.scoring import judged_points
from grader.results import ExerciseResult, Status
from grader.submissions.source import code_digest
from grader.text import clean, nearest

_LONGEST = 1000


def exercise_named(book: Gradebook, name: str) -> ExerciseResult:
    """Return an exercise as a blank result, with all of its tests; raises SubmissionError if there is none."""
    blank = book.facts.blank.exercises if book.facts.blank is not None else ()
    exercises = {exercise.name: exercise for exercise in blank}
    if name not in exercises:
        raise SubmissionError(f"{name!r} was not graded here. {nearest(name, exercises)}")
    return exercises[name]


def new_correction(
    book: Gradebook,
    student: str,
    exercise: ExerciseResult,
    *,
    author: str,
    reason: str = "",
    comment: str = "",
    points: float | None = None,
    add: float | None = None,
    drop: str = "",
    give: str = "",
    release: bool = False,
) -> Correction:
    """Return a correction for a student, or with an empty id for the class; it is not kept yet.

    The `exercise` is a blank result. The other parameters are those of `Correction`; `release` is for the file
    whose points are held now.

    Raises SubmissionError if it would change nothing, has no reason, or is impossible beside earlier ones.
    """
    correction = Correction(
        student=student,
        exercise=exercise.name,
        points=points,
        add=add,
        drop=drop,
        give=give,
        release=_held_file(book, student, exercise.name) if release else "",
        time=datetime.datetime.now(datetime.UTC).replace(microsecond=0),
        judged=_judged(book, student, exercise.name),
        reason=_line(reason),
        comment=_line(comment),
        author=_line(author),
    )
    if not correction.kinds:
        raise SubmissionError("Nothing would change: give points, or write a comment.")
    if correction.kind is not Kind.COMMENT and not correction.reason:
        raise SubmissionError("Give a reason: the student reads it beside the points.")
    refuse_pointless(correction, exercise, book.corrections())
    return correction


def corrections_about(book: Gradebook, student: str, exercise: str) -> list[tuple[int, Correction]]:
    """Return the corrections of a student or of the class for an exercise, each with its place from 0."""
    return [
        (place, correction)
        for place, correction in enumerate(book.corrections())
        if correction.exercise == exercise and correction.student in ("", student)
    ]


def state_of(book: Gradebook, student: str, exercise: str) -> str:
    """Return a digest of what a person decides by: the file that counts, its verdict, and the corrections."""
    info = book.student(student)
    if info is None:
        return ""
    rules, work = book.rules(), book.work(info)
    choice = choices(work, rules).get(exercise)
    verdict = None
    if choice is not None and choice.judged_as is not None:
        verdict = work.verdicts[exercise][choice.judged_as]
    state = (
        # Not their places, which other students' corrections move.
        [correction for _, correction in corrections_about(book, student, exercise)],
        "" if choice is None else choice.source,
        None if verdict is None else (verdict.status, verdict.score, verdict.graded_at),
    )
    return hashlib.sha256(msgspec.json.encode(state)).hexdigest()[:32]


def _line(text: str) -> str:
    """Clean a text of a person, on one line."""
    return clean(" ".join(text.split()), _LONGEST)


def _held_file(book: Gradebook, student: str, exercise: str) -> str:
    """Return the digest of the file whose points are held; raise SubmissionError if none are."""
    entry = book.entry_of(student)
    exercises = entry.result.exercises if entry is not None else ()
    if entry is None or not any(e.name == exercise and e.held for e in exercises):
        raise SubmissionError(f"{student} has no held points for {exercise}.")
    return code_digest(book.sources(entry)[exercise])


def _judged(book: Gradebook, student: str, exercise: str) -> float | None:
    """Return the judge's score of a student; None for the whole class, or without a verdict."""
    entry = book.entry_of(student) if student else None
    for result in entry.result.exercises if entry is not None else ():
        if result.name == exercise and result.status is not Status.UNJUDGED:
            return judged_points(result)
    return None
