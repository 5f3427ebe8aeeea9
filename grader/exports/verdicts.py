"""A result as the formats need it: whether it is judged, its total, its status, its texts."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from grader.judge.scoring import Share, change, judged_points, scaled, shares, shares_that_count
from grader.results import (
    EXTRA_CREDIT,
    Entry,
    ExerciseResult,
    Outcome,
    Result,
    Status,
    TestResult,
    Visibility,
)
from grader.student.blocks import explained, plain
from grader.text import counted, listed, number

# The name of the line that says what a policy and a person made of the points.
TOTAL_LINE = "points_that_count"
_FAULT = "Not judged: this is a fault of the grader and costs no points. Ask your instructor."
_WAITING = "Not judged yet: this costs no points. Ask your instructor when it will be judged."


def is_judged(exercise: ExerciseResult) -> bool:
    """Whether there is a verdict; without one the score says nothing."""
    return exercise.status is not Status.UNJUDGED


def not_judged(exercise: ExerciseResult) -> str:
    """What a student reads of an exercise without a verdict: a fault of the grader, or none yet."""
    return _WAITING if exercise.waiting else _FAULT


def why_open(entry: Entry) -> str:
    """A sentence for staff on why a student has no total."""
    open_ones = [e for e in entry.result.exercises if not is_judged(e)]
    if faults := [e.name for e in open_ones if not e.waiting]:
        return f"{listed(faults)} could not be judged, for a fault of the grader."
    return " ".join(dict.fromkeys(exercise.message for exercise in open_ones))


def unjudged(result: Result) -> list[str]:
    """The exercises that a person has to look at."""
    return [exercise.name for exercise in result.exercises if not is_judged(exercise)]


def public_only(result: Result) -> bool:
    """Whether nothing but public tests is in it: these points are no mark, where hidden tests count too."""
    return all(
        test.visibility is Visibility.PUBLIC
        for exercise in result.exercises
        for test in exercise.tests
    )


def total(entry: Entry, out_of: float | None = None) -> float | None:
    """The points of everything, scaled to `out_of`; None where an exercise has no verdict."""
    if unjudged(entry.result):
        return None
    result = entry.result
    return result.score if out_of is None else scaled(result.score, result.max_score, out_of)


def left_open(count: int) -> list[str]:
    """A note about students whose total is empty, if there are any."""
    if not count:
        return []
    who = counted(count, "student has", "students have")
    return [
        f"{who} no total: something is not judged. `grade batch` and `grade regrade` judge it, or say why not."
    ]


def overall(result: Result) -> Status:
    """One status for all exercises: passed or partial by the points, else what they have in common."""
    if unjudged(result):
        return Status.UNJUDGED
    if result.max_score > 0 and result.score >= result.max_score:
        return Status.PASSED
    if result.score > 0:
        return Status.PARTIAL
    statuses = {exercise.status for exercise in result.exercises}
    # What passed its tests may count for nothing, as what came too late.
    is_common = len(statuses) == 1 and not statuses & {Status.PASSED, Status.PARTIAL}
    return statuses.pop() if is_common else Status.FAILED


def standing(entry: Entry) -> str:
    """One word for all exercises of a student; a word of its own where nothing was handed in."""
    return "nothing_handed_in" if entry.absent else overall(entry.result).value


def explanation(test: TestResult) -> str:
    """The explanation of a test for the student: the message, the place, and the hint."""
    text = plain(explained(test))
    # Of a hidden test there may be no more to read; a reader of another system wants some words.
    return text or ("" if test.outcome is Outcome.PASSED else "This does not hold yet.")


class Line(msgspec.Struct, frozen=True):
    """A line of a table of points: a test, or what changed the points of all of them, and why."""

    test: TestResult
    share: Share
    text: str


def lines(exercise: ExerciseResult) -> list[Line]:
    """The tests with what the judge gave, then the change of the points, which may be below 0.

    The shares are hundredths of points and add up to the score: a format that sums them agrees with the total.
    """
    added = Share(change(exercise), 0)
    return _lines(exercise, shares(exercise), added)


def lines_that_count(exercise: ExerciseResult) -> list[Line]:
    """The tests and the change with the points that count, none of them below 0.

    For formats that allow no negative points: what was taken off is a line that earned nothing of its worth,
    and the tests that passed are worth so much less.
    """
    return _lines(exercise, *shares_that_count(exercise))


def lines_in_total(result: Result) -> Iterator[tuple[ExerciseResult, list[Line]]]:
    """Each judged exercise with `lines_that_count`, whose points add up to those of the result.

    Full marks do not need extra credit: its lines are out of what they earned, which is taken off the worth of
    lines that earned nothing. Where more was earned than all others lost, the sum is out of the points earned.
    """
    needed = any(not exercise.extra_credit for exercise in result.exercises)
    found = [(e, lines_that_count(e)) for e in result.exercises if is_judged(e)]
    extra = [exercise.extra_credit and needed for exercise, _ in found]
    groups = [group for (_, group), is_extra in zip(found, extra, strict=True) if is_extra]
    earned = sum(line.share.score for group in groups for line in group)
    for (exercise, group), is_extra in zip(found, extra, strict=True):
        in_total = []
        for line in group:
            score, worth = line.share.score, line.share.max_score
            taken = worth - score if is_extra else min(worth - score, earned)
            earned -= 0 if is_extra else taken
            share = Share(score, worth - taken)
            in_total.append(msgspec.structs.replace(line, share=share) if taken else line)
        yield exercise, in_total


def called(exercise: ExerciseResult) -> str:
    """The name of an exercise where its tests are listed; it says what is for extra credit."""
    return f"{exercise.name} ({EXTRA_CREDIT})" if exercise.extra_credit else exercise.name


def _lines(exercise: ExerciseResult, earned: list[Share], added: Share) -> list[Line]:
    tests = zip(exercise.tests, earned, strict=True)
    lines = [Line(test, share, explanation(test)) for test, share in tests]
    if (marked := change_of_points(exercise)) is not None:
        lines.append(Line(marked, added, marked.message))
    return lines


def change_of_points(exercise: ExerciseResult) -> TestResult | None:
    """What a policy and corrections made of the points, as a test; None where nothing is to be said."""
    mark = exercise.mark
    texts = (exercise.provisional, *mark.reasons, mark.comment) if mark else (exercise.provisional,)
    reasons = [text for text in texts if text]
    added = change(exercise) / 100
    if not (added or reasons):
        return None
    points = f"{number(exercise.score)} points count"
    return TestResult(
        name=TOTAL_LINE,
        title=f"{points}, not {number(judged_points(exercise))}" if added else points,
        visibility=Visibility.PUBLIC,
        outcome=Outcome.FAILED if added < 0 else Outcome.PASSED,
        score=added,
        max_score=max(added, 0.0),
        duration_seconds=0.0,
        message="\n".join(reasons),
        hint="",
    )
