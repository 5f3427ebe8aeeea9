"""What a person changed of the points of a class, and what becomes of them by it.

Dropped and given tests change what the judge gave; then comes the policy; then what is added, and last the
points that are final.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import msgspec

from grader.errors import SubmissionError
from grader.judge.scoring import rescored, rounded
from grader.results import Entry, ExerciseResult, Outcome, Result, Status
from grader.text import nearest, number


class Kind(enum.Enum):
    """What a correction does."""

    POINTS = "points"
    ADD = "add"
    DROP = "drop"
    GIVE = "give"
    RELEASE = "release"


_OF_TESTS = (Kind.DROP, Kind.GIVE)


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """One correction: of one student or, without, of all; of a `test` where it is dropped or given.

    A release is of one file, whose digest stands in the place of a test: another file is held again.
    `judged` is what the judge gave when it was made, for one student. It holds until it is `undone_at` some
    time; times are ISO 8601 in UTC.
    """

    id: int = 0
    student: str = ""
    exercise: str
    test: str = ""
    kind: Kind
    points: float = 0.0
    reason: str = ""
    comment: str = ""
    author: str = ""
    made_at: str = ""
    judged: float | None = None
    undone_at: str = ""
    undone_by: str = ""


class Corrected(msgspec.Struct, frozen=True):
    """Points after corrections, with a sentence for each reason; `final` where a person set them."""

    points: float
    reasons: tuple[str, ...] = ()
    comment: str = ""
    final: bool = False


def holding(
    corrections: Iterable[Correction], student: str, exercise: str, result: ExerciseResult | None
) -> list[Correction]:
    """Those of these corrections that hold for a student's exercise, in the order in which they were made.

    What is for the whole class is for a file that was judged: who handed in nothing gets no point by it.
    """
    is_judged = result is not None and not result.settled and result.status is not Status.UNJUDGED
    return [
        each
        for each in corrections
        if each.exercise == exercise
        and not each.undone_at
        and (each.student == student or (each.student == "" and is_judged))
    ]


def released(corrections: Iterable[Correction], source: str) -> bool:
    """Whether a person has looked at the file with this digest, and let its points count."""
    return any(each.kind is Kind.RELEASE and each.test == source for each in corrections)


def rejudged(result: ExerciseResult, corrections: Sequence[Correction]) -> ExerciseResult:
    """The points and the status without the dropped tests, and with the given ones passed."""
    names = {test.name for test in result.tests}
    tests = {kind: {c.test for c in corrections if c.kind is kind} & names for kind in _OF_TESTS}
    if result.settled or result.status is Status.UNJUDGED or not any(tests.values()):
        return result
    return rescored(result, tests[Kind.DROP], tests[Kind.GIVE])


def of_tests(corrections: Sequence[Correction], result: ExerciseResult) -> tuple[str, ...]:
    """A sentence for each test that is dropped, or given and was not passed, by its title."""
    # The name of a hidden test is not for students.
    return tuple(
        _sentence(f"“{test.title}” is {_words(each)}", each.reason)
        for each in corrections
        for test in result.tests
        if each.test == test.name
        and (
            each.kind is Kind.DROP
            or (each.kind is Kind.GIVE and test.outcome is not Outcome.PASSED)
        )
    )


def corrected(points: float, worth: float, corrections: Sequence[Correction]) -> Corrected:
    """The points of an exercise that is `worth` so many, after what was added and what is final.

    Of several that set the points the last one holds, and what was added stands for nothing beside it.
    """
    final = next((each for each in reversed(corrections) if each.kind is Kind.POINTS), None)
    added = [each for each in corrections if each.kind is Kind.ADD]
    standing = added if final is None else [final]
    points = points + sum(each.points for each in added) if final is None else final.points
    # A comment alone changes nothing, and needs no reason.
    told = [each for each in standing if each.kind is Kind.POINTS or each.points or each.reason]
    reasons = tuple(_sentence(_words(each), each.reason) for each in told)
    about = [each for each in corrections if each.kind in _OF_TESTS or each in standing]
    comment = " ".join(each.comment for each in about if each.comment)
    return Corrected(rounded(min(max(points, 0.0), worth)), reasons, comment, final is not None)


def outdated(
    corrections: Iterable[Correction], entries: Iterable[Entry]
) -> list[tuple[Correction, float]]:
    """The corrections of single students that hold and whose exercise is judged otherwise by now, with how."""
    about = {each.exercise for each in corrections if each.judged is not None}
    judged = {
        (entry.student.id, each.name): each.score if each.mark is None else each.mark.judged
        for entry in entries
        for each in entry.result.exercises
        if each.name in about and each.status is not Status.UNJUDGED
    }
    pairs = [
        (each, judged.get((each.student, each.exercise)))
        for each in corrections
        if each.judged is not None and not each.undone_at
    ]
    return [(each, now) for each, now in pairs if now is not None and now != each.judged]


def of_gone_tests(corrections: Iterable[Correction], blank: Result | None) -> list[Correction]:
    """The corrections that hold and whose test the exercise no longer has, so that they change nothing.

    `blank` is the result of a student who handed in nothing, with every test of the course.
    """
    exercises = blank.exercises if blank is not None else ()
    tests = {(each.name, test.name) for each in exercises for test in each.tests}
    return [
        each
        for each in corrections
        if each.kind in _OF_TESTS and not each.undone_at and (each.exercise, each.test) not in tests
    ]


def refuse_pointless(
    correction: Correction, exercise: ExerciseResult, made: Sequence[Correction]
) -> None:
    """Raise SubmissionError for a correction that cannot be, or would change nothing beside those made before.

    The exercise is as somebody has it who handed in nothing, with all of its tests.
    """
    worth, points = number(exercise.max_score), correction.points
    if correction.kind is Kind.POINTS and not 0 <= points <= exercise.max_score:
        raise SubmissionError(
            f"{exercise.name} is worth {worth} points: --points is from 0 to {worth}."
        )
    if correction.kind is Kind.ADD and abs(points) > exercise.max_score:
        raise SubmissionError(
            f"{exercise.name} is worth {worth} points: --add is at most that, up or down."
        )
    if correction.kind is Kind.RELEASE:
        return
    holds = [each for each in made if not each.undone_at and each.exercise == exercise.name]
    if correction.kind is Kind.ADD and points and correction.student:
        _refuse_beside_final(correction, holds)
    if correction.test:
        _refuse_test(correction, [test.name for test in exercise.tests], holds)


def _refuse_beside_final(correction: Correction, holds: Sequence[Correction]) -> None:
    for each in holds:
        if each.kind is Kind.POINTS and each.student == correction.student:
            raise SubmissionError(
                f"{each.student} has {number(each.points)} points for {each.exercise}, by number "
                f"{each.id}, which is final: give other --points, or take it back with --undo --number "
                f"{each.id}."
            )


def _refuse_test(correction: Correction, tests: Sequence[str], holds: Sequence[Correction]) -> None:
    test, exercise = correction.test, correction.exercise
    if test not in tests:
        raise SubmissionError(f"{exercise} has no test {test!r}. {nearest(test, tests)}")
    for each in holds:
        if each.test == test:
            done = "dropped" if each.kind is Kind.DROP else "given"
            raise SubmissionError(
                f"{test} is {done} already, by number {each.id}: take that back first, with --undo "
                f"--number {each.id}."
            )
    dropped = {each.test for each in holds if each.kind is Kind.DROP}
    if correction.kind is Kind.DROP and not set(tests) - dropped - {test}:
        raise SubmissionError(
            f"{test} is the last test of {exercise} that counts: take the exercise out of course.toml "
            "instead, or give it with --give."
        )


def correction_words(correction: Correction) -> str:
    """What a correction does, in a few words: set to 8 points; test_zero given."""
    match correction.kind:
        case Kind.DROP:
            return f"{correction.test} dropped"
        case Kind.GIVE:
            return f"{correction.test} given to all"
        case Kind.RELEASE:
            return "released"
        case Kind.ADD if not correction.points:
            return "a comment"
    words = _words(correction)
    return words[0].lower() + words[1:] if words[0].isalpha() else words


def _words(correction: Correction) -> str:
    amount = number(abs(correction.points))
    points = f"{amount} {'point' if amount == '1' else 'points'}"
    match correction.kind:
        case Kind.POINTS:
            return f"Set to {points}"
        case Kind.ADD:
            return f"{points} {'added' if correction.points >= 0 else 'taken off'}"
        case Kind.DROP:
            return "dropped and counts for no student"
        case Kind.GIVE:
            return "given to all"
        case Kind.RELEASE:
            return "A person has looked at the file"


def _sentence(words: str, reason: str) -> str:
    reason = reason.strip()
    end = "" if reason.endswith((".", "!", "?")) else "."
    return f"{words}: {reason}{end}" if reason else f"{words}."
