"""The suites under plain pytest: `pytest -p grader.judge.plain tests/hidden` judges `solutions/`.

With `--submission DIR` it judges DIR. The sandbox and its walls are the same as `grade`'s; what is
missing is the scoring.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.course.suite import MARKS, tests_of
from grader.errors import GraderError
from grader.judge.plugin import SuitePlugin, SuiteRun, visibility_of
from grader.judge.session import Session
from grader.results import Visibility
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


class _Suites:
    """Finds out what a test file judges, and keeps one session open: that of the file that runs."""

    def __init__(self, submission: str | None, seed: int) -> None:
        self._submission = Path(submission) if submission else None
        self._seed = seed
        self._sandboxes: SandboxSource | None = None
        self._server: ForkServerProcess | None = None
        self._judged: tuple[Path, SuiteRun] | None = None

    def find(self, path: Path) -> SuiteRun | None:
        """What the suite at `path` judges; None if it is no suite of a course."""
        if self._judged is not None and self._judged[0] == path:
            return self._judged[1]
        if path.parent.parent.name not in {each.value for each in Visibility}:
            return None
        try:
            course = load_course(path.parent)
        except GraderError:
            return None
        exercise = course.exercise(path.stem.removeprefix("test_"))
        handed = read_submission(self._submission or course.root / "solutions", course)
        source = handed.files[exercise.id].source
        if source is None:
            raise pytest.UsageError(handed.files[exercise.id].problem)
        self._close_session()
        tests = tests_of(course, exercise, (visibility_of(path),))
        session = Session(self._source_of_sandboxes(), exercise, source)
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
