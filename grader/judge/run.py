"""Judge one exercise of one submission: run its suites with pytest and turn what happened into a result.

Theory of operation. The tests of an exercise are known beforehand, from the syntax tree of its suites
(`grader.suite`). pytest runs them in this process; the plugin says what each end means; pytest-json-report
says what ran. The three must agree to the letter. A test that is missing, ran twice or ended in a way
that nobody explained is a fault of ours (`JudgeError`), never a pass and never the student's loss.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from grader.course import Course, Exercise
from grader.errors import GraderError, JudgeError
from grader.judge.outcomes import SandboxDied, StudentError, TimedOut
from grader.judge.plugin import Judged, Report, SuitePlugin, meaning_of, visibility_of
from grader.judge.reports import Recorder, Reported
from grader.judge.session import Session
from grader.judge.wording import clean_lines
from grader.results import ExerciseResult, Outcome, Place, TestResult, Visibility
from grader.sandbox.client import SandboxSource
from grader.scoring import score_exercise, score_test
from grader.suite import SuiteTest, tests_of

__all__ = ["Judgment", "judge_exercise"]

MAX_OUTPUT = 8_000


class Judgment(msgspec.Struct, frozen=True):
    """The result of an exercise, and the walls that held around the code that it judged."""

    result: ExerciseResult
    walls: tuple[str, ...]


def judge_exercise(
    course: Course,
    exercise: Exercise,
    source: bytes,
    *,
    seed: int,
    chosen: tuple[Visibility, ...],
    sandboxes: SandboxSource,
    required_walls: tuple[str, ...] = (),
    done: Callable[[TestResult], None] = lambda result: None,
) -> Judgment:
    """Judge the source of one exercise file; `done` is told of every test as it ends.

    Raises SyntaxError if the source cannot be parsed, and GraderError for a fault of ours.
    """
    begin = time.monotonic()
    tests = tests_of(course, exercise, chosen)
    session = Session(sandboxes, exercise, source, required_walls)
    try:
        # In this process the suites are imported meanwhile.
        session.begin()
        message, results = _run(course, exercise, tests, session, seed, done)
    finally:
        session.close()
    output = clean_lines(session.output.text(), MAX_OUTPUT)
    seconds = time.monotonic() - begin
    result = score_exercise(exercise, results, message=message, output=output, seconds=seconds)
    return Judgment(result, session.walls)


class _Loader:
    """Has the student's module loaded between the collection of the tests and their run."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.error: StudentError | TimedOut | SandboxDied | None = None
        self.fault: GraderError | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed:
            return None  # a suite could not be imported; pytest says so
        try:
            self._session.load()
        except (StudentError, TimedOut, SandboxDied) as error:
            self.error = error
        except GraderError as fault:
            self.fault = fault
        # A value from here is the loop's: no test runs.
        return None if self.error is None and self.fault is None else True


def _not_loaded(
    exercise: Exercise, tests: list[SuiteTest], error: StudentError | TimedOut | SandboxDied
) -> tuple[str, list[TestResult]]:
    """The module itself does not run: one message for the exercise, and every test shares its end."""
    said = meaning_of(error)
    message = f"{exercise.file} cannot be imported. {said.message}"
    # Unfinished work at the top of a file is an error there, not a part still to be written.
    outcome = Outcome.ERROR if said.outcome is Outcome.NOT_IMPLEMENTED else said.outcome
    said = msgspec.structs.replace(said, message=message, outcome=outcome)
    return message, [_result(exercise, test, said, 0.0) for test in tests]


def _run(
    course: Course,
    exercise: Exercise,
    tests: list[SuiteTest],
    session: Session,
    seed: int,
    done: Callable[[TestResult], None],
) -> tuple[str, list[TestResult]]:
    """The message and the results of the tests; one message for all where the module fails."""
    judged = Judged(session, tests, seed)
    recorder, loader = Recorder(), _Loader(session)
    plugin = SuitePlugin(
        lambda path: judged, lambda test, said: done(_result(exercise, test, said, 0.0))
    )
    suites = course.suites(exercise)
    chosen = {test.visibility for test in tests}
    files = [str(path) for visibility, path in suites.items() if visibility in chosen]
    _forget_other_suites(files)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main(
            [*files, *_OPTIONS, f"--rootdir={course.root}", *recorder.options],
            plugins=[plugin, recorder, loader],
        )
    _remember_suites(files)
    _freeze_modules()
    if loader.fault is not None:
        raise loader.fault
    if loader.error is not None:
        return _not_loaded(exercise, tests, loader.error)
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise JudgeError(
            f"pytest could not run the suites of {exercise.id!r} (exit code {int(code)}): "
            f"{said.getvalue().strip()[-2000:] or 'it said nothing'}"
        )
    return "", _agreed(exercise, tests, recorder.tests(course.root))


# pytest finds a suite's module again by its name below the root. In a judge that stays that may be a
# file of another course, or one that was edited since: each module carries what it was read from.
_READ_FROM = "__grader_read_from__"


def _forget_other_suites(files: list[str]) -> None:
    wanted = {(file, hashlib.sha256(Path(file).read_bytes()).hexdigest()) for file in files}
    for name, module in list(sys.modules.items()):
        if getattr(module, _READ_FROM, None) not in {None, *wanted}:
            del sys.modules[name]


def _remember_suites(files: list[str]) -> None:
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file in files and not hasattr(module, _READ_FROM):
            digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
            setattr(module, _READ_FROM, (file, digest))


def _freeze_modules() -> None:
    """Keep the collector away from what was just imported: torch's half a million objects.

    Looking through them again and again is a sixth of a warm judgment.
    """
    if len(gc.get_objects(generation=2)) > _MANY_OBJECTS:
        gc.collect()
        gc.freeze()


# Far above what one judgment leaves behind, far below what an import of torch does.
_MANY_OBJECTS = 20_000


# Plain asserts: a rewritten one would tell the student the suite's source.
_OPTIONS = [
    "-c",
    os.devnull,
    "--import-mode=importlib",
    "--assert=plain",
    "--capture=no",
    "--tb=no",
    "--quiet",
    "--noconftest",
    "-pno:cacheprovider",
    "-pno:doctest",
    "-pno:junitxml",
    "-pno:logging",
    "-pno:unittest",
    "-pno:unraisableexception",
    "-pno:threadexception",
    "-pno:warnings",
]


def _agreed(
    exercise: Exercise, tests: list[SuiteTest], reported: list[Reported]
) -> list[TestResult]:
    """The results, if what was declared, what ran and what was said of it are the same tests."""
    declared = [(test.visibility, test.name) for test in tests]
    ran = [(visibility_of(Path(report.file)), report.name) for report in reported]
    if ran != declared:
        missing = ", ".join(name for visibility, name in declared if (visibility, name) not in ran)
        raise JudgeError(
            f"The suites of {exercise.id!r} declare {len(declared)} tests and {len(ran)} ran"
            + (f"; missing: {missing}." if missing else ", in another order or twice.")
        )
    results = []
    for test, report in zip(tests, reported, strict=True):
        said = report.said
        if said is None or said.fault or (said.outcome is Outcome.PASSED) != _passed(report):
            why = said.fault if said is not None and said.fault else f"ended as {report.outcome}"
            raise JudgeError(
                f"The suite of {exercise.id!r} is at fault in {test.name}: {why}. "
                "This is not about the submission, and costs it nothing; tell the course's author."
            )
        results.append(_result(exercise, test, said, report.seconds))
    return results


def _passed(report: Reported) -> bool:
    return report.outcome == "passed"


def _result(exercise: Exercise, test: SuiteTest, said: Report, seconds: float) -> TestResult:
    place = Place(exercise.file, said.line, said.function) if said.line else None
    return score_test(test, said.outcome, said.message, place, seconds)
