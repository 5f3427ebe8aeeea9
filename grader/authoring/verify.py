"""The course proves itself: stubs earn nothing, right answers all, wrong ones are caught and named."""

from __future__ import annotations

import itertools
import queue
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from grader.authoring.references import dangling
from grader.authoring.stub import drift
from grader.course.manifest import Course, Exercise
from grader.course.suite import tests_of
from grader.errors import CourseError, GraderError
from grader.grading import settle
from grader.judge.assignment import GradingOptions
from grader.judge.process import Judge, judge_source, judges, modules_of
from grader.results import ExerciseResult, Outcome, Status, Visibility
from grader.submissions import ExerciseFile
from grader.submissions.source import parse

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


class ExerciseProof(msgspec.Struct, frozen=True):
    """One exercise, proved or not: how much was judged, and every complaint."""

    exercise: str
    right: int
    wrong: int
    tests: int
    complaints: tuple[str, ...]


def read_wrong(path: Path) -> Wrong | None:
    """The declaration in the first line of a wrong module; None if it makes none."""
    first = path.read_bytes().partition(b"\n")[0].decode("utf-8", "replace")
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
) -> Iterator[ExerciseProof]:
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
        self._tests = tests_of(course, exercise, tuple(Visibility))

    def prove(self) -> ExerciseProof:
        course, exercise, stub = self._course, self._exercise, self._course.stub(self._exercise)
        rights = [course.solution(exercise), *course.variants(exercise, "right")]
        wrongs = course.variants(exercise, "wrong")
        runs = [(stub, 0), *itertools.product(rights, range(self._seeds))]
        runs += [(path, 0) for path in wrongs]
        judged = dict(zip(runs, self._pool.map(self._judge, runs), strict=True))
        results = {run: each for run, each in judged.items() if not isinstance(each, str)}
        complaints = drift(course, exercise) + dangling(course, exercise, self._tests)
        complaints += self._faults(judged)
        complaints += self._stub_complaints(stub, results.get((stub, 0)))
        for path in rights:
            complaints += self._right_complaints(path, results)
        caught = [(path, results[path, 0]) for path in wrongs if (path, 0) in results]
        for path, result in caught:
            complaints += self._wrong_complaints(path, result)
        # Where none could be judged, that they prove nothing is no news.
        if caught or not wrongs:
            complaints += self._unproven([result for _, result in caught])
        return ExerciseProof(
            exercise.id, len(rights), len(wrongs), len(self._tests), tuple(complaints)
        )

    def _judge(self, run: tuple[Path, int]) -> ExerciseResult | str:
        """The result of a module with a seed, or why there is none."""
        path, seed = run
        source = path.read_bytes()
        try:
            parse(source)
        except SyntaxError as error:
            self._done(self._exercise, self._name(path))
            return f"line {error.lineno or 1} is not valid Python: {error.msg}."
        judge = self._free.get()
        try:
            options = GradingOptions(seed)
            return judge_source(judge, self._course, self._exercise, source, options).result
        except GraderError as error:
            return str(error)
        finally:
            self._free.put(judge)
            self._done(self._exercise, self._name(path))

    def _faults(self, judged: Mapping[tuple[Path, int], ExerciseResult | str]) -> list[str]:
        """Why modules could not be judged: a fault of the suite is the same for many of them."""
        modules: dict[str, list[str]] = {}
        for (path, _), result in judged.items():
            if isinstance(result, str) and self._name(path) not in modules.setdefault(result, []):
                modules[result].append(self._name(path))
        return [
            f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {fault}"
            for fault, names in modules.items()
        ]

    def _name(self, path: Path) -> str:
        return path.relative_to(self._course.root).as_posix()

    def _stub_complaints(self, path: Path, result: ExerciseResult | None) -> list[str]:
        """What is wrong with the stub; `result` is None if it could not be judged."""
        name = self._name(path)
        handed = ExerciseFile(path.read_bytes())
        settled = settle(self._course, self._exercise, handed, GradingOptions())
        complaints = []
        if settled is None or settled.status is not Status.NOT_ATTEMPTED:
            complaints.append(f"{name}: the stub is not recognized as untouched.")
        handed_out = self._course.folder / self._exercise.file
        if handed_out == path:
            kept = self._course.root / "tests" / "stubs" / self._exercise.file
            complaints.append(
                f"{self._name(kept)} is missing: copy the stub to it, as it is handed out."
            )
        elif not handed_out.is_file() or handed_out.read_bytes() != path.read_bytes():
            complaints.append(f"{name}: it is not the same as {self._name(handed_out)}; copy one.")
        if result is None:
            return complaints
        complaints += [
            f"{name}: the stub passes {test.name}, which is worth points."
            for test in result.tests
            if test.outcome is Outcome.PASSED
        ]
        if result.status is not Status.NOT_ATTEMPTED:
            told = f" ({result.message})" if result.message else ""
            complaints.append(
                f"{name}: judged, the stub is {result.status.value}{told}: let all that a student "
                "writes raise NotImplementedError."
            )
        return complaints

    def _right_complaints(
        self, path: Path, results: Mapping[tuple[Path, int], ExerciseResult]
    ) -> list[str]:
        # What is said may have numbers in it that every seed makes others: the first is told.
        seeds: dict[tuple[str, str], list[int]] = {}
        said: dict[tuple[str, str], str] = {}
        for seed in range(self._seeds):
            for test in results[path, seed].tests if (path, seed) in results else ():
                # One that is skipped has its cause in another one.
                if test.outcome not in (Outcome.PASSED, Outcome.SKIPPED):
                    found = (test.name, test.outcome.value)
                    seeds.setdefault(found, []).append(seed)
                    said.setdefault(found, test.message)
        return [
            f"{self._name(path)} is right, but {test} is {outcome} with {_seeds(under)}: "
            f"{said[test, outcome]}"
            for (test, outcome), under in seeds.items()
        ]

    def _wrong_complaints(self, path: Path, result: ExerciseResult) -> list[str]:
        name, wrong = self._name(path), read_wrong(path)
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
            said = " / ".join(each.partition("\n")[0] for each in messages if each) or "nothing"
            complaints.append(f"{name}: nobody says {wrong.told!r}; what is said: {said}")
        return complaints

    def _unproven(self, results: Sequence[ExerciseResult]) -> list[str]:
        """Tests that no wrong module makes fail, unless they say why, and do so rightly."""
        failed = {
            (test.visibility, test.name)
            for result in results
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


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
