"""What a result says to whoever counts points: is it judged at all, its total, each test's share.

Weights become points here once for all formats. Hundredths of points are dealt out as integers: the shares of
an exercise add up to its score and its worth exactly, whichever test is rounded up.
"""

from __future__ import annotations

from fractions import Fraction

import msgspec

from grader.results import Entry, ExerciseResult, Result, Status, TestResult, points

NOT_JUDGED = "Not judged: this is a fault of the grader and costs no points. Ask your instructor."


class Share(msgspec.Struct, frozen=True):
    """What a test earned of what it is worth, in hundredths of points."""

    score: int
    max_score: int


def is_judged(exercise: ExerciseResult) -> bool:
    """Whether there is a verdict; without one the score says nothing."""
    return exercise.status is not Status.UNJUDGED


def unjudged(result: Result) -> list[str]:
    """The exercises that a person has to look at."""
    return [exercise.name for exercise in result.exercises if not is_judged(exercise)]


def total(entry: Entry, out_of: float | None = None) -> float | None:
    """The points of everything, scaled to `out_of`; None where an exercise has no verdict."""
    result = entry.result
    if unjudged(result):
        return None
    if out_of is None:
        return result.score
    return points(result.score, result.max_score, out_of)


def left_open(count: int) -> list[str]:
    """What is told of students whose total is empty, if there are any."""
    if not count:
        return []
    who = "1 student has" if count == 1 else f"{count} students have"
    return [f"{who} no total: something is not judged. Run `grade batch` again; it says why."]


def overall(result: Result) -> Status:
    """One status for all exercises: passed or partial by the points, else what they have in common."""
    if unjudged(result):
        return Status.UNJUDGED
    if result.max_score > 0 and result.score >= result.max_score:
        return Status.PASSED
    if result.score > 0:
        return Status.PARTIAL
    statuses = {exercise.status for exercise in result.exercises}
    return statuses.pop() if len(statuses) == 1 else Status.FAILED


def shares(exercise: ExerciseResult) -> list[Share]:
    """What each test of a judged exercise earned: the sums are those of the exercise."""
    score, worth = hundredths(exercise.score), hundredths(exercise.max_score)
    earned = _dealt(score, [test.score for test in exercise.tests])
    missed = _dealt(worth - score, [test.max_score - test.score for test in exercise.tests])
    return [Share(got, got + lost) for got, lost in zip(earned, missed, strict=True)]


def _dealt(amount: int, weights: list[float]) -> list[int]:
    """The amount in whole parts by weight, by the method of the largest remainder."""
    if not weights:
        return []
    exact = [Fraction(max(weight, 0)) for weight in weights]
    whole = sum(exact)
    if not whole:
        exact, whole = [Fraction(1)] * len(weights), Fraction(len(weights))
    parts = [amount * weight / whole for weight in exact]
    dealt = [int(part) for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda at: dealt[at] - parts[at])
    for at in by_remainder[: amount - sum(dealt)]:
        dealt[at] += 1
    return dealt


def hundredths(value: float) -> int:
    """Points as an integer number of hundredths."""
    return round(value * 100)


def decimal(value: float) -> str:
    """Points as a person writes them, with a point: 15, 7.5, 0.33."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def explanation(test: TestResult) -> str:
    """What the student is told about a test: the message, where, and the hint."""
    lines = [test.message] if test.message else []
    if test.place is not None:
        lines.append(f"{test.place.file}:{test.place.line}")
    if test.hint:
        lines.append(f"Hint: {test.hint}")
    return "\n".join(lines)
