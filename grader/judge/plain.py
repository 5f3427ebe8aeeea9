"""Suites under plain pytest: `pytest -p grader.judge.plain tests/hidden` judges `solutions/`.

In a copy of the course without solutions, it judges `exercises/`, and with `--submission DIR`, the folder DIR.
The sandbox and its walls are the same as for `grade`. With `--json-report` (pytest-json-report), the report
also has the points.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from grader.course.manifest import load_course, probe_of
from grader.course.suite import MARKS, SuiteTest
from grader.course.suites import tests_of
from grader.errors import CourseError, GraderError
from grader.judge.assignment import GradingOptions
from grader.judge.checks.promise import body_of
from grader.judge.outcomes import SubmissionFailure
from grader.judge.pytest_report import add_scores, metadata_of
from grader.judge.scoring import score_test
from grader.judge.solution import Solved, session_of, solution_of
from grader.judge.student import Student
from grader.judge.suite_run import NotYet, SuiteRun, fitting_hint
from grader.results import Outcome, Place, Visibility
from grader.sandbox.client import SandboxSource
from grader.sandbox.forking import CAN_FORK, ForkServerProcess, ForkServerSandboxes
from grader.sandbox.spawning import SpawnedSandboxes
from grader.submissions import read_submission


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("grader", "judging submissions")
    group.addoption("--submission", metavar="DIR", help="judge DIR instead of the solutions")
    group.addoption("--grader-seed", type=int, default=0, metavar="N", help="seed of the inputs")


def pytest_configure(config: pytest.Config) -> None:
    for mark in MARKS:
        config.addinivalue_line("markers", f"{mark}(...): see grader/course/suite.py")
    suites = _Suites(config.getoption("--submission"), config.getoption("--grader-seed"))
    config.pluginmanager.register(suites)
    config.pluginmanager.register(SuitePlugin(suites.find))


@pytest.hookimpl(optionalhook=True)
def pytest_json_modifyreport(json_report: dict[str, Any]) -> None:
    """Add the scores to the report of pytest-json-report."""
    add_scores(json_report, Path(json_report["root"]))


class SuitePlugin:
    """A plugin that gives every test of a suite a `student`, its prerequisites and a seed.

    `find` returns the run of a suite's file, None for any other file.
    """

    def __init__(self, find: Callable[[Path], SuiteRun | None]) -> None:
        self._find = find
        self._metadata: dict[str, dict[str, Any]] = {}

    @pytest.fixture
    def student(self, request: pytest.FixtureRequest) -> Student:
        """The student's module, which runs in the sandbox."""
        run = self._find(request.path)
        if run is None:
            raise CourseError(f"{request.path} is not a suite of a course, so it has no student.")
        return Student(run.session, probe_of(request.path))

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """Call a test of a suite; call it again if it may inherit the mistake of an earlier function."""
        suite = pyfuncitem.path
        if (run := self._find(suite)) is None:
            return None
        if (test := _declared(run, pyfuncitem)) is None:
            pytest.skip("needs a package that is not installed")
        try:
            run.begin(test)
            pyfuncitem.obj(pyfuncitem.funcargs["student"])
        except Exception as error:
            end = run.carried_forward(test, suite, pyfuncitem.obj, run.end(test, error))
            if end.outcome is Outcome.PASSED:
                return True
            if isinstance(error, NotYet):
                pytest.skip(str(error))
            raise
        return True

    # Innermost, so that the metadata exists before other plugins read it.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """End the test of a suite, and keep its metadata."""
        error = call.excinfo.value if call.excinfo is not None else None
        if isinstance(error, SubmissionFailure) and not item.config.getoption("fulltrace"):
            _end_in_suite(error, item.path)
        report = yield
        ends = call.when == "call" or (call.when == "setup" and error is not None)
        run = self._find(item.path) if ends else None
        if run is not None and (test := _declared(run, item)) is not None:
            skipped = isinstance(error, pytest.skip.Exception)
            end = run.end(test, NotYet(str(error)) if skipped else error)
            file = run.session.exercise.file
            place = Place(file, end.line, end.function) if end.line else None
            function = item.function if isinstance(item, pytest.Function) else None
            test = fitting_hint(test, end, body_of(function) if function else None)
            result = score_test(test, end.outcome, end.message, place)
            self._metadata[item.nodeid] = metadata_of(run.session.exercise.id, result)
        return report

    @pytest.hookimpl(optionalhook=True)
    def pytest_json_runtest_metadata(self, item: pytest.Item) -> dict[str, Any]:
        return self._metadata.get(item.nodeid, {})


def _end_in_suite(error: BaseException, suite: Path) -> None:
    """Remove the grader's own frames below the suite from a traceback; they do not help a student."""
    error.__suppress_context__ = True
    last, entry = None, error.__traceback__
    while entry is not None:
        if Path(entry.tb_frame.f_code.co_filename) == suite:
            last = entry
        entry = entry.tb_next
    if last is not None:
        last.tb_next = None


def _warn_always() -> None:
    """Have PyTorch repeat warnings that it otherwise gives once in a process."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_warn_always(True)


def _declared(run: SuiteRun, item: pytest.Item) -> SuiteTest | None:
    """Return the suite's test for an item, None if it is left out here."""
    return run.tests.get((_visibility_of(item.path), item.name))


def _visibility_of(suite: Path) -> Visibility:
    """Return the visibility of a suite by its folder."""
    return Visibility(suite.parent.parent.name)


class _Suites:
    """Runs of suites by their files; only the session of the current file stays open."""

    def __init__(self, submission: str | None, seed: int) -> None:
        self._submission = Path(submission) if submission else None
        self._seed = seed
        self._sandboxes: SandboxSource | None = None
        self._server: ForkServerProcess | None = None
        self._judged: tuple[Path, SuiteRun] | None = None
        self._solved = Solved()

    def find(self, path: Path) -> SuiteRun | None:
        """Return the run of the suite at `path`, None if the file is not a suite of a course."""
        if self._judged is not None and self._judged[0] == path:
            return self._judged[1]
        if path.parent.parent.name not in {visibility.value for visibility in Visibility}:
            return None
        try:
            course = load_course(path.parent)
        except GraderError:
            return None
        try:
            exercise = course.exercise(path.stem.removeprefix("test_"))
            solutions = course.solution(exercise).is_file()
            own = course.root / "solutions" if solutions else course.folder
            handed = read_submission(self._submission or own, course)
        except GraderError as error:
            # Of another exception, pytest shows its own frames.
            raise pytest.UsageError(str(error)) from error
        source = handed.files[exercise.id].source
        if source is None:
            raise pytest.UsageError(handed.files[exercise.id].problem)
        self._close_session()
        _warn_always()
        tests = tests_of(course, exercise, (_visibility_of(path),))
        sandboxes, options = self._source_of_sandboxes(), GradingOptions(seed=self._seed)
        solution = solution_of(course, exercise, options, sandboxes, self._solved)
        session = session_of(course, exercise, source, options, sandboxes, solution)
        self._judged = path, SuiteRun(session, tests, self._seed)
        return self._judged[1]

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self) -> Generator[None]:
        try:
            return (yield)
        finally:
            self._close_session()
            if self._server is not None:
                self._server.close()

    def _source_of_sandboxes(self) -> SandboxSource:
        if self._sandboxes is None and CAN_FORK:
            self._server = ForkServerProcess(1, walls=True)
            self._sandboxes = ForkServerSandboxes(self._server.controls[0])
        elif self._sandboxes is None:
            self._sandboxes = SpawnedSandboxes(walls=True)
        return self._sandboxes

    def _close_session(self) -> None:
        if self._judged is not None:
            self._judged[1].session.close()
            self._judged = None
