"""From the ends of tests to the points of an exercise: the only place where a score is computed."""

from __future__ import annotations

from grader.course.manifest import Exercise
from grader.course.suite import SuiteTest
from grader.results import ExerciseResult, Outcome, Place, Status, TestResult, points


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
