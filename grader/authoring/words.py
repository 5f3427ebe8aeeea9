"""The share of each exercise's points that hang on words of a sandbox, which whoever runs in it may forge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import CourseError
from grader.judge.assignment import GradingOptions
from grader.judge.pool import Judges
from grader.judge.scoring import kept
from grader.judge.warmth import modules_of
from grader.results import Outcome, TestResult

# What is answered under the second seed stands for what is asked under the first one.
SEEDS = (0, 1)
# The part of an exercise's points that words may be worth.
MOST = 0.1


class WordsReport(msgspec.Struct, frozen=True):
    """The tests of an exercise that pass with replies of another seed; `share` of its points is theirs."""

    exercise: str
    share: float
    tests: tuple[TestResult, ...]

    @property
    def holds(self) -> bool:
        """Whether words are worth no more than they may be."""
        return self.share <= MOST


def words(
    course: Course,
    exercises: Sequence[Exercise],
    *,
    jobs: int = 1,
    done: Callable[[], None] = lambda: None,
) -> Iterator[WordsReport]:
    """Judge each solution with what it answered under another seed; `done` is called for each exercise.

    What passes although nothing was computed for this run's inputs are words.
    """
    sources = [course.solution_source(exercise) for exercise in exercises]
    for exercise, source in zip(exercises, sources, strict=True):
        if source is None:
            raise CourseError(f"{exercise.id!r} has no solution, whose answers could be replayed.")
    asked, answered = SEEDS
    options = GradingOptions(asked, replay=answered)
    with (
        Judges(jobs, preload=modules_of(course, exercises), learn=True) as judges,
        ThreadPoolExecutor(jobs) as threads,
    ):
        judges.start()

        def judge(exercise: Exercise, source: bytes | None) -> WordsReport:
            judgment = judges.judge(course, exercise, source or b"", options)
            done()
            passed = tuple(t for t in judgment.result.tests if t.outcome is Outcome.PASSED)
            return WordsReport(exercise.id, kept(judgment.result.tests), passed)

        yield from threads.map(judge, exercises, sources)
