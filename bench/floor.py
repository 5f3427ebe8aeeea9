"""The floor: the same suites in one process with the student's code, no sandbox, no wall, no wire.

Other graders work like this, and no isolation can be faster. It is for measuring only, since the judged code
could do anything to it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.course.manifest import Course, Exercise, load_course, probe_of
from grader.course.suite import MARKS
from grader.course.suites import tests_of
from grader.judge.outcomes import StudentError, student_error
from grader.judge.plain import SuitePlugin
from grader.judge.student_file import StudentFile
from grader.judge.suite_run import SuiteRun
from grader.results import Visibility
from grader.sandbox.wire.values import Opaque, Record

__all__ = ["judge_here"]


class _Student:
    """The `student` fixture without a wall: the module is in this process."""

    def __init__(
        self, module: types.ModuleType, probe: types.ModuleType | None, kept: dict[str, Any]
    ) -> None:
        self._module, self._probe = module, probe
        self._kept = kept
        self.mutated: list[str] = []

    def module(self, class_name: str, *arguments: Any, **keywords: Any) -> Any:
        with _as_student():
            return getattr(self._module, class_name)(*arguments, **keywords)

    def function(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            with _as_student():
                return _plain(getattr(self._module, name)(*arguments, **keywords))

        return call

    def run(self, probe: str, *arguments: Any, **keywords: Any) -> Any:
        with _as_student():
            return _plain(getattr(self._probe, probe)(self._module, *arguments, **keywords))

    def once(self, name: str, ask: Callable[[], Any]) -> Any:
        if name not in self._kept:
            self._kept[name] = ask()
        return self._kept[name]


@contextlib.contextmanager
def _as_student() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        ancestry = tuple(kind.__name__ for kind in type(error).__mro__)
        raise student_error(type(error).__name__, ancestry, str(error), ()) from error


def _plain(value: Any) -> Any:
    """Return the value as it would arrive over the wire."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = dict(zip(value._fields, map(_plain, value), strict=True))
        return Record(type(value).__name__, fields)
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(each) for each in value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    return value if hasattr(value, "dtype") else Opaque(type(value).__qualname__)


class _Session:
    """A stand-in with the methods that the plugin needs of a session."""

    def __init__(self, exercise: Exercise, source: bytes) -> None:
        self.exercise, self.file = exercise, StudentFile(exercise, source)
        self.raised: list[StudentError] = []

    def begin_test(self, seed: int, share: str = "") -> None:
        """Do nothing: there is no sandbox to seed."""

    def is_out_of_time(self, share: str) -> bool:  # noqa: ARG002
        """Return False: there is no time limit."""
        return False


class _Floor(SuitePlugin):
    def __init__(self, course: Course, exercise: Exercise, file: Path, seed: int) -> None:
        session: Any = _Session(exercise, file.read_bytes())
        judged = SuiteRun(session, tests_of(course, exercise, tuple(Visibility)), seed)
        super().__init__(lambda path: judged)
        for name in exercise.given_files:
            _load(Path(name).stem, course.folder / name)
        self._student = _load(exercise.id, file)
        self._probes: dict[Path, types.ModuleType | None] = {}
        self._kept: dict[str, Any] = {}

    def pytest_configure(self, config: pytest.Config) -> None:
        for mark in MARKS:
            config.addinivalue_line("markers", mark)

    @pytest.fixture
    def student(self, request: pytest.FixtureRequest) -> Any:
        probe = probe_of(request.path)
        if probe not in self._probes:
            self._probes[probe] = _load(probe.stem, probe) if probe.is_file() else None
        return _Student(self._student, self._probes[probe], self._kept)


def _load(name: str, file: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def judge_here(course: Course, exercise: Exercise, file: Path, seed: int = 0) -> int:
    """Run an exercise's suites on a file in this process; return pytest's exit code."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main(
            [
                *map(str, course.suites(exercise).values()),
                "-c/dev/null",
                "--import-mode=importlib",
                "--assert=plain",
                "--quiet",
                "--noconftest",
                "-pno:cacheprovider",
                "-pno:warnings",
                "-pno:logging",
                f"--rootdir={course.root}",
            ],
            plugins=[_Floor(course, exercise, file, seed)],
        )
    if code not in (0, 1):
        raise SystemExit(f"The floor could not run {exercise.id}: {said.getvalue()[-2000:]}")
    return int(code)


if __name__ == "__main__":
    # `python -m bench.floor SUBMISSION [EXERCISE...]`: pytest started anew for one submission.
    here = load_course(".")
    for each in here.select(sys.argv[2:]):
        judge_here(here, each, Path(sys.argv[1]) / each.file)
