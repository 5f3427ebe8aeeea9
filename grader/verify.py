"""The course proves itself: stubs earn nothing, right answers all, wrong ones are caught and named."""

from __future__ import annotations

import queue
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from grader.course import Course, Exercise
from grader.errors import CourseError, GraderError
from grader.grading import judge_source, modules_of, settle
from grader.intake import Handed
from grader.judge.process import Judge, judges
from grader.results import ExerciseResult, Outcome, Status, Visibility
from grader.stubs import drift
from grader.suite import tests_of

__all__ = ["Proof", "Wrong", "read_wrong", "verify"]

SEEDS = 5
_HEADER = re.compile(
    r"#\s*wrong:(?P<mistake>.+?)\|\s*caught by:(?P<tests>.+?)\|\s*told:(?P<told>.+)"
)
_CAUGHT = (Outcome.FAILED, Outcome.ERROR, Outcome.TIMEOUT, Outcome.NOT_IMPLEMENTED)


class Wrong(msgspec.Struct, frozen=True):
    """What the first line of a wrong module says: its mistake, who must catch it, and in which words."""

    mistake: str
    tests: tuple[str, ...]
    told: str


class Proof(msgspec.Struct, frozen=True):
    """One exercise, proved or not: how much was judged, and every complaint."""

    exercise: str
    right: int
    wrong: int
    tests: int
    complaints: tuple[str, ...]


def read_wrong(path: Path) -> Wrong | None:
    """The declaration in the first line of a wrong module; None if it makes none."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    found = _HEADER.match(first)
    if found is None:
        return None
    tests = tuple(name.strip() for name in found["tests"].split(","))
    return Wrong(found["mistake"].strip(), tests, found["told"].strip())


def verify(
    course: Course,
    exercises: Sequence[Exercise],
    *,
    jobs: int = 1,
    seeds: int = SEEDS,
    done: Callable[[Exercise, str], None] = lambda exercise, what: None,
) -> Iterator[Proof]:
    """Prove the exercises one after the other; `done` is told of every module that was judged.

    Nothing is believed that was not judged: the stub too is run, although grading never needs to.
    """
    for exercise in exercises:
        if not course.solution(exercise).is_file():
            path = course.solution(exercise)
            raise CourseError(f"There is nothing to prove {exercise.id!r} with: {path} is missing.")
    with (
        judges(jobs, preload=modules_of(exercises)) as started,
        ThreadPoolExecutor(jobs) as pool,
    ):
        free: queue.SimpleQueue[Judge] = queue.SimpleQueue()
        for judge in started:
            free.put(judge)
        for exercise in exercises:
            yield _Prover(course, exercise, free, pool, seeds, done).prove()


_Job = tuple[Callable[..., list[str]], tuple[Any, ...]]


class _Prover:
    """Judges the modules of one exercise in whatever judge is free, and collects the complaints."""

    def __init__(
        self,
        course: Course,
        exercise: Exercise,
        free: queue.SimpleQueue[Judge],
        pool: ThreadPoolExecutor,
        seeds: int,
        done: Callable[[Exercise, str], None],
    ) -> None:
        self._course, self._exercise = course, exercise
        self._free, self._pool = free, pool
        self._seeds, self._done = seeds, done
        self._chosen = tuple(Visibility)
        self._tests = tests_of(course, exercise, self._chosen)

    def prove(self) -> Proof:
        course, exercise = self._course, self._exercise
        rights = [course.solution(exercise), *course.variants(exercise, "right")]
        wrongs = course.variants(exercise, "wrong")
        jobs: list[_Job] = [(self._stub_complaints, (course.stub(exercise),))]
        jobs += [
            (self._right_complaints, (path, seed)) for path in rights for seed in range(self._seeds)
        ]
        complaints = drift(course, exercise)
        complaints += [text for found in self._pool.map(_call, jobs) for text in found]
        results = list(self._pool.map(self._judge_wrong, wrongs))
        for path, result in zip(wrongs, results, strict=True):
            complaints += self._wrong_complaints(path, result)
        complaints += self._unproven(results)
        return Proof(exercise.id, len(rights), len(wrongs), len(self._tests), tuple(complaints))

    def _judge(self, path: Path, seed: int) -> ExerciseResult | str:
        """The result, or the sentence of a fault of ours."""
        judge = self._free.get()
        try:
            return judge_source(
                judge,
                self._course,
                self._exercise,
                path.read_bytes(),
                seed=seed,
                chosen=self._chosen,
            ).result
        except GraderError as error:
            return f"{self._name(path)}: {error}"
        finally:
            self._free.put(judge)
            self._done(self._exercise, self._name(path))

    def _name(self, path: Path) -> str:
        return path.relative_to(self._course.root).as_posix()

    def _stub_complaints(self, path: Path) -> list[str]:
        name = self._name(path)
        settled = settle(self._course, self._exercise, Handed(path.read_bytes()), self._chosen)
        complaints = []
        if settled is None or settled.status is not Status.NOT_ATTEMPTED:
            complaints.append(f"{name}: the stub is not recognized as untouched.")
        handed_out = self._course.folder / self._exercise.file
        if not handed_out.is_file() or handed_out.read_bytes() != path.read_bytes():
            complaints.append(f"{name}: it is not the same as {self._name(handed_out)}; copy one.")
        result = self._judge(path, 0)
        if isinstance(result, str):
            return [*complaints, result]
        complaints += [
            f"{name}: the stub passes {test.name}, which is worth points."
            for test in result.tests
            if test.outcome is Outcome.PASSED
        ]
        if result.status is not Status.NOT_ATTEMPTED:
            complaints.append(
                f"{name}: judged, the stub is {result.status.value}: {result.message}"
            )
        return complaints

    def _right_complaints(self, path: Path, seed: int) -> list[str]:
        result = self._judge(path, seed)
        if isinstance(result, str):
            return [result]
        return [
            f"{self._name(path)} is right, but {test.name} is {test.outcome.value} "
            f"with seed {seed}: {test.message}"
            for test in result.tests
            # One that is skipped has its cause in another one.
            if test.outcome not in (Outcome.PASSED, Outcome.SKIPPED)
        ]

    def _judge_wrong(self, path: Path) -> ExerciseResult | str:
        return self._judge(path, 0)

    def _wrong_complaints(self, path: Path, result: ExerciseResult | str) -> list[str]:
        name, wrong = self._name(path), read_wrong(path)
        if isinstance(result, str):
            return [result]
        if wrong is None:
            form = "'# wrong: the mistake | caught by: test_a, test_b | told: words'"
            return [f"{name}: its first line must read {form}."]
        tests = {test.name: test for test in result.tests}
        complaints = [
            f"{name}: there is no test {each!r}." for each in wrong.tests if each not in tests
        ]
        named = [tests[each] for each in wrong.tests if each in tests]
        complaints += [
            f"{name}: {test.name} does not catch it ({test.outcome.value})."
            for test in named
            if test.outcome not in _CAUGHT
        ]
        messages = [test.message for test in named]
        if not any(wrong.told.lower() in message.lower() for message in messages):
            said = " / ".join(message.partition("\n")[0] for message in messages)
            complaints.append(f"{name}: nobody says {wrong.told!r}; what is said: {said}")
        return complaints

    def _unproven(self, results: Sequence[ExerciseResult | str]) -> list[str]:
        """Tests that no wrong module makes fail, unless they say why, and do so rightly."""
        failed = {
            (test.visibility, test.name)
            for result in results
            if not isinstance(result, str)
            for test in result.tests
            if test.outcome in _CAUGHT
        }
        complaints = []
        for test in self._tests:
            label = f"{test.visibility.value} {test.name}"
            if (test.visibility, test.name) not in failed and not test.unproven:
                complaints.append(f"{self._exercise.id}: no wrong module fails {label}.")
            elif (test.visibility, test.name) in failed and test.unproven:
                complaints.append(f"{self._exercise.id}: {label} is marked unproven, yet fails.")
        return complaints


def _call(job: _Job) -> list[str]:
    function, arguments = job
    return function(*arguments)
