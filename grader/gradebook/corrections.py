"""Corrections of points by a person, and their effect; also extensions that a person gave a student.

First, dropped and given tests change the judge's points; then comes the policy; then added points, and last
final points. `corrections_file.py` reads and writes the file of corrections.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Annotated

import msgspec

from grader.errors import SubmissionError
from grader.gradebook.policy import Extension
from grader.judge.scoring import judged_points, rescored
from grader.results import Entry, ExerciseResult, Outcome, Result, Status
from grader.text import clean, in_points, nearest, number, rounded


class Kind(enum.Enum):
    """The kind of a correction; the value is its key in the file."""

    POINTS = "points"
    ADD = "add"
    DROP = "drop"
    GIVE = "give"
    RELEASE = "release"
    COMMENT = "comment"


# The ends of sentences.
_END = (".", "!", "?", ":", "…")
_Text = Annotated[str, msgspec.Meta(min_length=1)]
# The bounds exclude infinity and NaN.
_Points = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
_Change = Annotated[float, msgspec.Meta(ge=-1e6, le=1e6)]


# The longest text in a correction.
_LONGEST = 1000


def one_line(text: str) -> str:
    """Return a person's text as one line without invisible characters, as corrections have it."""
    return clean(" ".join(text.split()), _LONGEST)


def now() -> datetime.datetime:
    """Return the time of a correction that is made now, in whole seconds."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


class Correction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One correction in the file, for one student or, without `student`, for the class.

    points, add: the final points of the exercise, or points to add.
    drop, give: the name of a test to drop, or to count as passed.
    release: the SHA-256 of a file to release; another file of the student is held again.
    comment: a comment, which may also be the only content.
    judged: the judge's points when it was made, for one student.
    marked: the SHA-256 of the only file that a mark of `grade mark` is about.
    beyond: whether added points may exceed the worth of the exercise.
    """

    student: str = ""
    exercise: _Text
    points: _Points | None = None
    add: _Change | None = None
    drop: str = ""
    give: str = ""
    release: str = ""
    reason: str = ""
    comment: str = ""
    author: _Text
    time: Annotated[datetime.datetime, msgspec.Meta(tz=True)]
    judged: _Points | None = None
    marked: str = ""
    beyond: bool = False

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of its keys; a valid correction has one."""
        changes = [kind for kind in Kind if getattr(self, kind.value) not in (None, "")]
        return [kind for kind in changes if kind is not Kind.COMMENT] or changes

    @property
    def kind(self) -> Kind:
        """The kind of the correction."""
        return self.kinds[0]

    @property
    def test(self) -> str:
        """The test that is dropped or given, empty if there is none."""
        return self.drop or self.give


class GivenExtension(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """More time that a person gave one student, in addition to the policy's extensions.

    exercises: the exercises that have more time; all of them if empty.
    until: the time until which they are due, with its offset.
    """

    student: _Text
    exercises: tuple[_Text, ...] = ()
    until: Annotated[datetime.datetime, msgspec.Meta(tz=True)]
    reason: str = ""
    author: _Text
    time: Annotated[datetime.datetime, msgspec.Meta(tz=True)]

    @property
    def rule(self) -> Extension:
        """The same as an extension of a policy."""
        return Extension(
            student=self.student, exercises=self.exercises, until=self.until, reason=self.reason
        )


class Corrected(msgspec.Struct, frozen=True):
    """Points after corrections, a sentence for each reason, and the comments, one a line.

    `final`: a person set the points.
    """

    points: float
    reasons: tuple[str, ...] = ()
    comment: str = ""
    final: bool = False


def holding(
    corrections: Iterable[Correction], student: str, exercise: str, result: ExerciseResult | None
) -> list[Correction]:
    """Return the corrections for a student's exercise, in order.

    A correction for the whole class applies only to judged files, so a student who handed in nothing gets no
    points.
    """
    is_judged = result is not None and not result.settled and result.status is not Status.UNJUDGED
    return [
        correction
        for correction in corrections
        if correction.exercise == exercise
        and (correction.student == student or (correction.student == "" and is_judged))
    ]


def released(corrections: Iterable[Correction], source: str) -> bool:
    """Whether a person has released the file with this digest, so that its points count."""
    return any(correction.release == source for correction in corrections if correction.release)


def about_file(corrections: Iterable[Correction], source: str) -> list[Correction]:
    """Return the corrections without marks, except the last mark for the file with this digest."""
    made = list(corrections)
    last = next((c for c in reversed(made) if c.marked == source != ""), None)
    return [c for c in made if not c.marked or c is last]


def rejudged(result: ExerciseResult, corrections: Sequence[Correction]) -> ExerciseResult:
    """Return the result as if dropped tests did not exist and given tests had passed."""
    names = {test.name for test in result.tests}
    dropped = {correction.drop for correction in corrections} & names
    given = {correction.give for correction in corrections} & names
    if result.settled or result.status is Status.UNJUDGED or not (dropped or given):
        return result
    return rescored(result, dropped, given)


def of_tests(corrections: Sequence[Correction], result: ExerciseResult) -> tuple[str, ...]:
    """Return a sentence for each test that is dropped, or given although it did not pass."""
    # The name of a hidden test is not for students.
    return tuple(
        _sentence(f"“{test.title}” is {_words(correction)}", correction.reason)
        for correction in corrections
        for test in result.tests
        if test.name == correction.drop
        or (test.name == correction.give and test.outcome is not Outcome.PASSED)
    )


def corrected(points: float, worth: float, corrections: Sequence[Correction]) -> Corrected:
    """Apply corrections that add or set points to the points of an exercise worth `worth` points.

    If any set the points, the last one counts, and added points do not.
    """
    final = next((c for c in reversed(corrections) if c.points is not None), None)
    if final is not None and final.points is not None:
        points, standing = final.points, [final]
    else:
        points += sum(c.add or 0.0 for c in corrections)
        standing = [c for c in corrections if c.kind in (Kind.ADD, Kind.COMMENT)]
    # A comment changes no points, and needs no reason.
    with_reason = [c for c in standing if c.kind is Kind.POINTS or c.add or c.reason]
    reasons = tuple(_sentence(_words(c), c.reason) for c in with_reason)
    comments = [c.comment for c in corrections if c.comment and (c.test or c in standing)]
    most = worth + sum(max(c.add or 0.0, 0.0) for c in standing if c.beyond)
    if rounded(points) > most:
        reasons += (f"The maximum of {in_points(most)} is reached.",)
    points = rounded(min(max(points, 0.0), most))
    return Corrected(points, reasons, "\n".join(comments), final is not None)


def on_one_line(comment: str) -> str:
    """Join the lines of a comment into one line, ending each like a sentence."""
    lines = [line.strip() for line in comment.splitlines() if line.strip()]
    ended = [line if line.endswith(_END) else f"{line}." for line in lines[:-1]]
    return " ".join([*ended, *lines[-1:]])


def outdated(
    corrections: Iterable[Correction], entries: Iterable[Entry]
) -> list[tuple[Correction, float]]:
    """Return the corrections that were made for other judged points, each with the current judged points."""
    judged = {
        (entry.student.id, exercise.name): judged_points(exercise)
        for entry in entries
        for exercise in entry.result.exercises
        if exercise.status is not Status.UNJUDGED
    }
    changed = []
    for correction in corrections:
        now = judged.get((correction.student, correction.exercise))
        # A mark that changes no points does not depend on the judge's points.
        changes_nothing = correction.marked and not correction.add
        if correction.judged is None or now is None or changes_nothing:
            continue
        if correction.judged != now:
            changed.append((correction, now))
    return changed


def of_gone_tests(corrections: Iterable[Correction], blank: Result | None) -> list[Correction]:
    """Return the corrections without effect because the exercise no longer has their test.

    `blank` is the result of a student who handed in nothing, with every test of the course.
    """
    exercises = blank.exercises if blank is not None else ()
    tests = {(exercise.name, test.name) for exercise in exercises for test in exercise.tests}
    return [
        correction
        for correction in corrections
        if correction.test and (correction.exercise, correction.test) not in tests
    ]


def unknown_names(
    corrections: Sequence[Correction],
    students: Collection[str],
    exercises: Collection[str],
    extensions: Sequence[GivenExtension] = (),
) -> Iterator[str]:
    """Yield a sentence about each correction or extension with a name that the gradebook lacks."""
    named = [
        *((f"[[correction]] {n}", c.student, (c.exercise,)) for n, c in enumerate(corrections, 1)),
        *((f"[[extension]] {n}", e.student, e.exercises) for n, e in enumerate(extensions, 1)),
    ]
    for where, student, names in named:
        if student and student not in students:
            advice = nearest(student, students)
            yield f"{where} names {student!r}, and no student here has that id. {advice}"
        for exercise in names:
            if exercise not in exercises:
                advice = nearest(exercise, exercises)
                yield f"{where} names {exercise!r}, which is not graded here. {advice}"


def refuse_pointless(
    correction: Correction, exercise: ExerciseResult, made: Sequence[Correction]
) -> None:
    """Raise SubmissionError for a correction that is impossible, or has no effect after the ones in `made`.

    `exercise` is from a blank result, with all of its tests.
    """
    worth = number(exercise.max_score)
    if correction.points is not None and not 0 <= correction.points <= exercise.max_score:
        raise SubmissionError(
            f"{exercise.name} is worth {worth} points: the points must be from 0 to {worth}."
        )
    if abs(correction.add or 0.0) > exercise.max_score:
        raise SubmissionError(
            f"{exercise.name} is worth {worth} points: added points must be from -{worth} to {worth}."
        )
    holds = {place: c for place, c in enumerate(made, 1) if c.exercise == exercise.name}
    for place, other in holds.items():
        is_of_student = correction.student and other.student == correction.student
        if correction.add and is_of_student and other.points is not None:
            raise SubmissionError(
                f"{other.student} has {number(other.points)} points for {other.exercise}, by number "
                f"{place}, which is final: set other points, or take it back (--undo --number {place})."
            )
    if (test := correction.test) == "":
        return
    tests = [each.name for each in exercise.tests]
    if test not in tests:
        raise SubmissionError(f"{exercise.name} has no test {test!r}. {nearest(test, tests)}")
    for place, other in holds.items():
        if other.test == test:
            raise SubmissionError(
                f"{test} is already {'dropped' if other.drop else 'given'} by number {place}: take that back "
                f"first (--all {exercise.name} --{'drop' if other.drop else 'give'} {test} --undo)."
            )
    if correction.drop and {*tests} <= {test, *(other.drop for other in holds.values())}:
        raise SubmissionError(
            f"{test} is the last test of {exercise.name} that counts: remove the exercise from course.toml "
            "instead, or use --give."
        )


def correction_words(correction: Correction) -> str:
    """Return the effect of a correction in a few words: set to 8 points; test_zero given."""
    match correction.kind:
        case Kind.DROP:
            return f"{correction.drop} dropped"
        case Kind.GIVE:
            return f"{correction.give} given to all"
        case Kind.RELEASE:
            return "released"
        case Kind.COMMENT:
            return "a comment"
    words = _words(correction)
    return words[0].lower() + words[1:]


def _words(correction: Correction) -> str:
    """Return the effect of a correction as the beginning of a sentence for the student."""
    points = correction.add if correction.points is None else correction.points
    amount = in_points(abs(points or 0.0))
    match correction.kind:
        case Kind.ADD if correction.marked and not correction.add:
            return "Read by a person"
        case Kind.POINTS:
            return f"Set to {amount}"
        case Kind.DROP:
            return "dropped and counts for no student"
        case Kind.GIVE:
            return "given to all"
        case _:
            return f"{amount} {'added' if (points or 0.0) >= 0 else 'taken off'}"


def _sentence(words: str, reason: str) -> str:
    reason = reason.strip()
    end = "" if reason.endswith(_END) else "."
    return f"{words}: {reason}{end}" if reason else f"{words}."
