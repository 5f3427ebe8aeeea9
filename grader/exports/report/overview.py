"""The class at a glance, from the tally: key figures, exercises, tests."""

from __future__ import annotations

import msgspec

from grader.exports.report.charts import Histogram, histogram
from grader.exports.report.mistakes import Mistake
from grader.exports.report.statistics import discrimination, mean, median, quantile
from grader.exports.report.tally import ExerciseTally, Tally, TestTally
from grader.results import Status, Visibility

__all__ = ["ExerciseView", "Figures", "TestView", "exercise_view", "figures"]

_MOST_MISTAKES = 25


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The class in numbers; shares are of the points there are, and of final scores only."""

    students: int
    final: int
    untouched: int
    full: int
    mean: float | None
    median: float | None
    distribution: Histogram


class TestView(msgspec.Struct, frozen=True, kw_only=True):
    """One test: how many attempted it, and which share of them passed."""

    __test__ = False  # pytest collects classes by this prefix

    name: str
    title: str
    visibility: Visibility
    attempted: int
    passed: int
    share: float
    discrimination: float | None


class ExerciseView(msgspec.Struct, frozen=True, kw_only=True):
    """One exercise, over those who attempted it and were judged; `difficulty` is 1 - mean share.

    Of `missing` students there is no file that could be read.
    """

    name: str
    title: str
    chapter: str
    max_score: float
    statuses: dict[Status, int]
    missing: int
    attempted: int
    passed: float | None
    mean: float | None
    difficulty: float | None
    discrimination: float | None
    median_seconds: float | None
    slow_seconds: float | None
    longest_seconds: float | None
    tests: tuple[TestView, ...]
    mistakes: tuple[Mistake, ...]


def figures(tally: Tally) -> Figures:
    """The key figures of the class."""
    shares = [row.share for row in tally.final]
    return Figures(
        students=len(tally.rows),
        final=len(shares),
        untouched=sum(row.untouched for row in tally.rows),
        full=sum(share >= 1 for share in shares),
        mean=mean(shares),
        median=median(shares),
        distribution=histogram(shares),
    )


def exercise_view(tally: Tally, exercise: ExerciseTally) -> ExerciseView:
    """What the class tells about one exercise."""
    attempted = len(exercise.scores)
    average = mean(exercise.scores)
    share = None if average is None or not exercise.max_score else average / exercise.max_score
    pairs = list(tally.paired_exercise(exercise))
    return ExerciseView(
        name=exercise.name,
        title=exercise.title,
        chapter=exercise.chapter,
        max_score=exercise.max_score,
        statuses={status: count for status, count in exercise.statuses.items() if count},
        missing=exercise.missing,
        attempted=attempted,
        passed=exercise.statuses[Status.PASSED] / attempted if attempted else None,
        mean=average,
        difficulty=None if share is None else 1 - share,
        discrimination=discrimination([p[0] for p in pairs], [p[1] for p in pairs]),
        median_seconds=median(exercise.seconds),
        slow_seconds=quantile(exercise.seconds, 0.9),
        longest_seconds=max(exercise.seconds, default=None),
        tests=tuple(_test_view(tally, test) for test in exercise.tests.values()),
        mistakes=tuple(exercise.mistakes.common(_MOST_MISTAKES)),
    )


def _test_view(tally: Tally, test: TestTally) -> TestView:
    pairs = list(tally.paired(test))
    passed, attempted = sum(test.passed), len(test.passed)
    return TestView(
        name=test.name,
        title=test.title,
        visibility=test.visibility,
        attempted=attempted,
        passed=passed,
        share=passed / attempted,
        discrimination=discrimination([p[0] for p in pairs], [p[1] for p in pairs]),
    )
