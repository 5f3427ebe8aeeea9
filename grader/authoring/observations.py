"""Observations of a course's wrong answers by tests, for packages and releases without these answers."""

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
from grader.judge.preloading import modules_of
from grader.judge.recognition import ObservedMistake, ObservedMistakes, observed
from grader.results import Visibility


def observations(
    course: Course,
    exercises: Sequence[Exercise],
    *,
    suites: Sequence[Visibility] = tuple(Visibility),
    digest: Callable[[Exercise], str] | None = None,
    seed: int = 0,
    jobs: int = 1,
    done: Callable[[str], object] = lambda text: None,
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of observed mistakes, name and bytes, for exercises with wrong answers that fail here.

    Every wrong answer is judged with the seed. The name is below the course's root. `digest` returns the digest
    of an exercise where the file will be used, by default in this course; `done` is called with each exercise's
    id as it begins.
    """
    chosen = [e for e in exercises if any(s in course.suites(e) for s in suites)]
    answers_of = {e.id: wrong_answers(course, e).answers for e in chosen}
    chosen = [e for e in chosen if answers_of[e.id]]
    if not chosen:
        return
    options = GradingOptions(seed, tuple(suites))
    with (
        Judges(jobs, preload=modules_of(course, chosen), learn=True) as judges,
        ThreadPoolExecutor(jobs) as threads,
    ):
        for exercise in chosen:
            done(exercise.id)

            def judged(answer: WrongAnswer, of: Exercise = exercise) -> ObservedMistake | None:
                try:
                    judgment = judges.judge(course, of, answer.source, options)
                except GraderError:
                    return None  # `grade verify` reports it
                return observed(answer, judgment.result)

            seen = [o for o in threads.map(judged, answers_of[exercise.id]) if o is not None]
            mistakes = tuple(mistake for mistake in seen if mistake.seen)
            if mistakes:
                of_whole = digest(exercise) if digest else exercise_digest(course, exercise)
                observations_ = ObservedMistakes(of_whole, seed, mistakes)
                yield course.name_of(course.observed(exercise)), msgspec.json.encode(observations_)
