"""What the tests of a course see of its wrong answers, for packages in which these are not at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from grader.course.digest import exercise_digest
from grader.course.manifest import Course, Exercise
from grader.course.mutants import WrongAnswer, wrong_answers
from grader.errors import GraderError
from grader.judge.assignment import GradingOptions
from grader.judge.pool import Judges
from grader.judge.recognition import ObservedMistake, ObservedMistakes, observed
from grader.judge.warmth import modules_of


def observations(
    course: Course,
    exercises: Sequence[Exercise],
    *,
    seed: int = 0,
    jobs: int = 1,
    done: Callable[[str], object] = lambda text: None,
) -> Iterator[tuple[str, bytes]]:
    """The file of each exercise that has wrong answers: its name below the course's root, and its bytes.

    Every wrong answer is judged with the seed; `done` is called with the exercise as it begins.
    """
    with (
        Judges(jobs, preload=modules_of(course, exercises), learn=True) as judges,
        ThreadPoolExecutor(jobs) as threads,
    ):
        for exercise in exercises:
            answers = wrong_answers(course, exercise).answers
            if not answers:
                continue
            done(exercise.id)

            def judged(answer: WrongAnswer, of: Exercise = exercise) -> ObservedMistake | None:
                try:
                    judgment = judges.judge(course, of, answer.source, GradingOptions(seed))
                except GraderError:
                    return None  # `grade verify` says so
                return observed(answer, judgment.result)

            mistakes = tuple(filter(None, threads.map(judged, answers)))
            kept = ObservedMistakes(exercise_digest(course, exercise), seed, mistakes)
            yield course.name_of(course.observed(exercise)), msgspec.json.encode(kept)
