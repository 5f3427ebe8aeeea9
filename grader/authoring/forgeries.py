"""Measure the points that forged replies and forged answers earn in each exercise.

`grade verify --words` judges a solution's answers under another seed. `grade audit --forge` judges more kinds
of forged replies, and the submissions in tests/forged/<chapter>/<exercise>, which were written to earn points
without doing the work. A line `# honest: 0.15, why` gives the share of the points earned by real work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import CourseError
from grader.judge.assignment import AuthorOptions, Forgery, GradingOptions
from grader.judge.pool import Judges
from grader.judge.scoring import kept
from grader.results import TestResult
from grader.submissions.odd_code import odd_code, ordinary_in

# The share of an exercise's points that a forgery may earn.
MOST = 0.1
_HONEST = re.compile(rb"^# honest: (\d(?:\.\d+)?)\b", re.MULTILINE)


class ForgeryReport(msgspec.Struct, frozen=True):
    """The result of a forgery in an exercise: the tests that pass, and their `share` of its points, 0 to 1."""

    exercise: str
    forgery: Forgery
    share: float
    tests: tuple[TestResult, ...]

    @property
    def holds(self) -> bool:
        """Whether the forgery earns at most the allowed share."""
        return self.share <= MOST


def forge(
    course: Course,
    exercises: Sequence[Exercise],
    forgeries: Sequence[Forgery] = tuple(Forgery),
    *,
    jobs: int = 1,
    shared: Judges | None = None,
    done: Callable[[], None] = lambda: None,
) -> Iterator[ForgeryReport]:
    """Judge forged replies instead of each solution's; `done` is called for each judgment.

    The judges are `shared`, or `jobs` new ones. Passed tests were passed by words: nothing was computed for
    this run's inputs. Raises CourseError for an exercise without a solution.
    """
    sources = {}
    for exercise in exercises:
        source = course.solution_source(exercise)
        if source is None:
            raise CourseError(f"{exercise.id!r} has no solution, whose answers could be replayed.")
        sources[exercise.id] = source
    tasks = [(exercise, forgery) for exercise in exercises for forgery in forgeries]
    with Judges.shared_or_new(shared, course, exercises, jobs) as judges:
        judges.start()

        def judge(task: tuple[Exercise, Forgery]) -> ForgeryReport:
            exercise, forgery = task
            source, author = sources[exercise.id], AuthorOptions(forgery=forgery)
            result = judges.judge(course, exercise, source, GradingOptions(), author=author).result
            done()
            passed = tuple(test for test in result.tests if test.score)
            return ForgeryReport(exercise.id, forgery, kept(result.tests), passed)

        yield from judges.threads.map(judge, tasks)


class ForgedAnswer(msgspec.Struct, frozen=True):
    """The result of a forged submission: its `share` of the points, including its `honest` work."""

    exercise: str
    name: str
    share: float
    honest: float
    reasons: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether it earns at most the allowed share, or is held for a person."""
        return bool(self.reasons) or round(self.share - self.honest, 9) <= MOST


def judge_forged(
    course: Course,
    exercises: Sequence[Exercise],
    *,
    jobs: int = 1,
    done: Callable[[], None] = lambda: None,
) -> Iterator[ForgedAnswer]:
    """Judge the forged answers of these exercises; `done` is called for each."""
    tasks = [
        (exercise, path) for exercise in exercises for path in course.variants(exercise, "forged")
    ]
    with Judges.for_many(course, exercises, jobs) as judges:

        def judge(task: tuple[Exercise, Path]) -> ForgedAnswer:
            exercise, path = task
            source = path.read_bytes()
            result = judges.judge(course, exercise, source, GradingOptions()).result
            done()
            odd = odd_code(source, ordinary_in(exercise, course.stub(exercise).source))
            reasons = (*result.held, *(oddity.what for oddity in odd))
            honest = _HONEST.search(source)
            return ForgedAnswer(
                exercise.id,
                path.stem,
                result.score / result.max_score,
                float(honest[1]) if honest else 0.0,
                reasons,
            )

        yield from judges.threads.map(judge, tasks)
