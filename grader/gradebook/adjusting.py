"""A person's change of points: make the correction, for `grade adjust` and for the pages of the server.

`state_of` is a digest of everything that the person sees before deciding. If it differs afterwards, somebody
else has changed something in between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from grader.errors import SubmissionError
from grader.gradebook.book import Gradebook
from grader.gradebook.corrections import Correction, Kind, now, one_line, refuse_pointless
from grader.gradebook.marking import shared_file_of
from grader.gradebook.standing import choices
from grader.judge.scoring import judged_points
from grader.results import ExerciseResult, Status, StudentInfo
from grader.submissions.source import code_digest
from grader.text import nearest


def exercise_named(book: Gradebook, name: str) -> ExerciseResult:
    """Return the blank result of an exercise, with all of its tests; raises SubmissionError if unknown."""
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
    """Return a correction for a student, or for the class if the id is empty, without keeping it.

    `exercise` is a blank result. `release` is for the file whose points are held now; the other parameters are
    fields of `Correction`.

    Raises SubmissionError if it changes nothing, has no reason, or conflicts with earlier corrections.
    """
    correction = Correction(
        student=student,
        exercise=exercise.name,
        points=points,
        add=add,
        drop=drop,
        give=give,
        release=_held_file(book, student, exercise.name) if release else "",
        time=now(),
        judged=_judged(book, student, exercise.name),
        reason=one_line(reason),
        comment=one_line(comment),
        author=one_line(author),
    )
    if not correction.kinds:
        raise SubmissionError("Nothing would change: give points, or write a comment.")
    if len(correction.kinds) > 1:
        raise SubmissionError("Make one change at a time.")
    if correction.kind is not Kind.COMMENT and not correction.reason:
        raise SubmissionError("Give a reason: the student reads it with the points.")
    refuse_pointless(correction, exercise, book.corrections())
    return correction


def released_mates(
    book: Gradebook,
    student: str,
    exercise: str,
    sees: Callable[[StudentInfo], bool] = lambda _: True,
) -> list[str]:
    """Return the other members of the team whose points are held for the same file, if `sees` them.

    A release of the file counts for them, too.
    """
    info = book.student(student)
    file = shared_file_of(book, info, exercise) if info is not None else None
    members = file.students if file is not None else ()
    return [
        mate
        for mate in members
        if mate != student
        and (of_mate := book.student(mate)) is not None
        and sees(of_mate)
        and _is_held(book, mate, exercise)
    ]


def with_mates(book: Gradebook, correction: Correction, mates: list[str]) -> list[Correction]:
    """Return a release, and the same release for others of the team; only its own student gets the comment."""
    others = [
        msgspec.structs.replace(
            correction, student=mate, judged=_judged(book, mate, correction.exercise), comment=""
        )
        for mate in mates
    ]
    return [correction, *others]


def corrections_about(book: Gradebook, student: str, exercise: str) -> list[tuple[int, Correction]]:
    """Return the corrections that affect a student's exercise, each with its place, from 0."""
    return [
        (place, correction)
        for place, correction in enumerate(book.corrections())
        if correction.exercise == exercise and correction.student in ("", student)
    ]


def state_of(book: Gradebook, student: str, exercise: str) -> str:
    """Return a digest of the file that counts, its verdict, and the corrections."""
    info = book.student(student)
    if info is None:
        return ""
    rules, work = book.rules(), book.work(info)
    choice = choices(work, rules).get(exercise)
    verdict = None
    if choice is not None and choice.judged_as is not None:
        verdict = work.verdicts[exercise][choice.judged_as]
    state = (
        # Leave out the places, which corrections of other students change.
        [correction for _, correction in corrections_about(book, student, exercise)],
        "" if choice is None else choice.source,
        None if verdict is None else (verdict.status, verdict.score, verdict.graded_at),
    )
    return hashlib.sha256(msgspec.json.encode(state)).hexdigest()[:32]


def class_state_of(book: Gradebook, exercise: str) -> str:
    """Return a digest of the corrections of the whole class for an exercise."""
    corrections = [correction for _, correction in corrections_of(book, "", exercise)]
    return hashlib.sha256(msgspec.json.encode(corrections)).hexdigest()[:32]


def corrections_of(
    book: Gradebook, student: str, exercise: str, test: str = ""
) -> list[tuple[int, Correction]]:
    """Return the corrections of a student, or with an empty id of the class, each with its place, from 0.

    With a `test`, return only those that drop or give it.
    """
    return [
        (place, correction)
        for place, correction in enumerate(book.corrections())
        if (correction.student, correction.exercise) == (student, exercise)
        and test in ("", correction.test)
    ]


def _held_file(book: Gradebook, student: str, exercise: str) -> str:
    """Return the digest of the file whose points are held; raises SubmissionError if there is none."""
    entry = book.entry_of(student)
    if entry is None or not _is_held(book, student, exercise):
        raise SubmissionError(f"{student} has no held points for {exercise}.")
    return code_digest(book.sources(entry)[exercise])


def _is_held(book: Gradebook, student: str, exercise: str) -> bool:
    """Whether a student's points for an exercise are held."""
    entry = book.entry_of(student)
    exercises = entry.result.exercises if entry is not None else ()
    return any(each.name == exercise and each.held for each in exercises)


def _judged(book: Gradebook, student: str, exercise: str) -> float | None:
    """Return the judge's score of a student; None without a verdict, or for the whole class."""
    entry = book.entry_of(student) if student else None
    for result in entry.result.exercises if entry is not None else ():
        if result.name == exercise and result.status is not Status.UNJUDGED:
            return judged_points(result)
    return None
