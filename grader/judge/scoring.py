"""From the ends of tests to the points of an exercise: the only place where a score is computed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from grader.course.manifest import Exercise
from grader.course.suite import SuiteTest
from grader.results import ExerciseResult, Outcome, Place, Result, Status, TestResult, points


def score_test(
    test: SuiteTest, outcome: Outcome, message: str, place: Place | None = None, seconds: float = 0
) -> TestResult:
    """One test: its weight if it passed, nothing otherwise."""
    passed = outcome is Outcome.PASSED
    return TestResult(
        name=test.name,
        title=test.title,
        visibility=test.visibility,
        outcome=outcome,
        score=test.points if passed else 0.0,
        max_score=test.points,
        duration_seconds=round(seconds, 4),
        message=message if message or passed else "This does not hold yet.",
        hint="" if passed else test.hint,
        place=place,
    )


def score_exercise(
    exercise: Exercise,
    tests: list[TestResult],
    *,
    message: str = "",
    output: str = "",
    seconds: float = 0,
) -> ExerciseResult:
    """An exercise: its points times the earned share of its tests' weights."""
    earned, total = sum(test.score for test in tests), sum(test.max_score for test in tests)
    return ExerciseResult(
        name=exercise.id,
        title=exercise.title,
        chapter=exercise.chapter,
        status=_status([test.outcome for test in tests]),
        score=points(earned, total, exercise.points),
        max_score=exercise.points,
        duration_seconds=round(seconds, 4),
        message=message,
        tests=tuple(tests),
        output=output,
    )


def _status(outcomes: list[Outcome]) -> Status:
    """Passed or partial by what was earned; of nothing earned, the gravest reason counts."""
    passed = outcomes.count(Outcome.PASSED)
    if outcomes and passed == len(outcomes):
        return Status.PASSED
    if passed:
        return Status.PARTIAL
    for outcome, status in (
        (Outcome.TIMEOUT, Status.TIMEOUT),
        (Outcome.FAILED, Status.FAILED),
        (Outcome.ERROR, Status.ERROR),
    ):
        if outcome in outcomes:
            return status
    return Status.NOT_ATTEMPTED


def sum_of(exercises: Iterable[ExerciseResult]) -> tuple[float, float]:
    """The points earned in these exercises, and those that there are."""
    results = tuple(exercises)
    earned, worth = sum(each.score for each in results), sum(each.max_score for each in results)
    return round(earned, 2), round(worth, 2)


def reaches(result: Result, percent: float) -> bool:
    """Whether a result has at least this percentage of its points."""
    # Rounded to hundredths, as points are: no share of them may miss its limit by a last bit.
    return result.score >= round(result.max_score * percent / 100, 2)


def scaled(result: Result, out_of: float) -> float:
    """The points of a result as they are out of `out_of`."""
    return points(result.score, result.max_score, out_of)


class Share(msgspec.Struct, frozen=True):
    """What a test earned of what it is worth, in hundredths of points."""

    score: int
    max_score: int

    @property
    def missed(self) -> float:
        """The points that it did not earn."""
        return (self.max_score - self.score) / 100


def shares(exercise: ExerciseResult) -> list[Share]:
    """What each test of a judged exercise earned: the sums are those of the exercise.

    Hundredths are dealt out as integers, so that they add up exactly whichever test is rounded up.
    """
    score, worth = hundredths(exercise.score), hundredths(exercise.max_score)
    earned = _dealt(score, [test.score for test in exercise.tests])
    missed = _dealt(worth - score, [test.max_score - test.score for test in exercise.tests])
    return [Share(got, got + lost) for got, lost in zip(earned, missed, strict=True)]


def _dealt(amount: int, weights: list[float]) -> list[int]:
    """The amount in whole parts by weight, by the method of the largest remainder."""
    if not weights:
        return []
    # Here, for it is slow to load and whoever judges needs none of it.
    from fractions import Fraction

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
