"""What forged replies earn in each exercise: for `grade verify --words` and `grade audit --forge`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import CourseError
from grader.judge.assignment import Forgery, GradingOptions
from grader.judge.pool import Judges
from grader.judge.preloading import modules_of
from grader.judge.scoring import kept
from grader.results import TestResult

# The part of an exercise's points that a forgery may earn.
MOST = 0.1


class ForgeryReport(msgspec.Struct, frozen=True):
    """What a forgery earns in an exercise: the tests that pass, and their `share` of its points, 0 to 1."""

    exercise: str
    forgery: Forgery
    share: float
    tests: tuple[TestResult, ...]

    @property
    def holds(self) -> bool:
        """Whether the forgery earns at most what is allowed."""
        return self.share <= MOST


def forge(
    course: Course,
    exercises: Sequence[Exercise],
    forgeries: Sequence[Forgery] = tuple(Forgery),
    *,
    jobs: int = 1,
    done: Callable[[], None] = lambda: None,
) -> Iterator[ForgeryReport]:
    """Judge forged replies instead of each solution's; `done` is called for each judgment.

    What passes was earned by words: nothing was computed for this run's inputs.
    """
    sources = {}
    for exercise in exercises:
        source = course.solution_source(exercise)
        if source is None:
            raise CourseError(f"{exercise.id!r} has no solution, whose answers could be replayed.")
        sources[exercise.id] = source
    tasks = [(exercise, forgery) for exercise in exercises for forgery in forgeries]
    with (
        Judges(jobs, preload=modules_of(course, exercises), learn=True) as judges,
        ThreadPoolExecutor(jobs) as threads,
    ):
        judges.start()

        def judge(task: tuple[Exercise, Forgery]) -> ForgeryReport:
            exercise, forgery = task
            options = GradingOptions(forgery=forgery)
            result = judges.judge(course, exercise, sources[exercise.id], options).result
            done()
            passed = tuple(test for test in result.tests if test.score)
            return ForgeryReport(exercise.id, forgery, kept(result.tests), passed)

        yield from threads.map(judge, tasks)
