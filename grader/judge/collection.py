"""pytest's sessions over the suites of exercises: collected once, run again for every submission.

Theory of operation. What pytest does before the first test of a suite (its configuration, thirty plugins,
the import of the suite, the collection) costs 30 ms, and what it does around each test to report it another
0.1 ms: together more than most exercises' tests, and none of it about the submission. So a judge makes a
session as `pytest.main` does and stops where the tests would run. For each submission it then has pytest set up
each item's fixtures, call the test's function, and take the fixtures down, the last ones after the last
test, so that nothing of one submission is there for the next. What ends a run before its end, and an edited
suite, end the session; the next submission finds a new one.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import io
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

# What pytest.main does first; there is no public name for a session that is not run at once.
from _pytest.config import _prepareconfig

from grader.course.suite import MARKS, SuiteTest
from grader.errors import JudgeError
from grader.judge.plugin import SuitePlugin, SuiteRun, TestEnd, declared

# More courses than one judge meets, outside of the grader's own tests.
MOST_KEPT = 32


class CollectionError(Exception):
    """The suites cannot be collected; the text says why."""


class Collections:
    """The sessions that a judge keeps, by the files of their suites."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Path, ...], Collection] = {}

    def of(self, root: Path, files: Sequence[Path]) -> Collection:
        """The collected suites of these files below `root`; else a CollectionError."""
        key = tuple(files)
        sources = tuple(file.read_bytes() for file in files)
        kept = self._kept.pop(key, None)
        if kept is not None and (kept.sources != sources or not kept.intact):
            kept.close()
            _forget_bytecode(files)
            kept = None
        if kept is None:
            kept = Collection(root, key, sources)
        # The last one is the one that was used last.
        self._kept[key] = kept
        if len(self._kept) > MOST_KEPT:
            self._kept.pop(next(iter(self._kept))).close()
        return kept


class Collection:
    """One session: the suites of an exercise, imported and collected.

    Attributes:
        sources: what the files held when they were collected.
        intact: whether the session can be run again.
    """

    def __init__(self, root: Path, files: Sequence[Path], sources: tuple[bytes, ...]) -> None:
        self.sources = sources
        self.intact = True
        self._judged: SuiteRun | None = None
        self._witness = Witness()
        self._plugin = SuitePlugin(lambda path: self._judged)
        self._fresh = True
        _forget(files)
        with _quiet():
            self._config = _prepareconfig(
                [*map(str, files), *_OPTIONS, f"--rootdir={root}"], [self._plugin, self._witness]
            )
            try:
                self._items = self._collected()
            except BaseException:
                self._config._ensure_unconfigure()
                raise

    def _collected(self) -> list[pytest.Function]:
        config = self._config
        for mark in MARKS:
            config.addinivalue_line("markers", f"{mark}(...): see grader/course/suite.py")
        config._do_configure()
        session: pytest.Session = pytest.Session.from_config(config)
        config.hook.pytest_sessionstart(session=session)
        config.hook.pytest_collection(session=session)
        if self._witness.collection_errors:
            raise CollectionError("\n".join(self._witness.collection_errors))
        self._setups = session._setupstate
        return [item for item in session.items if isinstance(item, pytest.Function)]

    def run(self, judged: SuiteRun, done: Callable[[SuiteTest, TestEnd], None]) -> list[TestRun]:
        """Run every test for one submission; what came of each, in the order in which they ran."""
        # Until it has come to its end.
        self.intact = False
        self._judged = judged
        reported = []
        with _quiet():
            for item, following in zip(self._items, [*self._items[1:], None], strict=True):
                test = declared(judged, item)
                begin = time.perf_counter()
                said = judged.end(test, self._error_of(item, test, following))
                seconds = time.perf_counter() - begin
                passed = self._witness.saw_return(item)
                reported.append(TestRun(item.path, item.name, passed, seconds, said))
                done(test, said)
        self._judged = None
        if self._fresh:
            self._fresh = False
            _freeze_modules()
        self.intact = True
        return reported

    def _error_of(
        self, item: pytest.Function, test: SuiteTest, following: pytest.Function | None
    ) -> BaseException | None:
        """Run one test as pytest does; what it raised. What takes a fixture down may raise nothing."""
        assert self._judged is not None
        self._plugin.begin(item)
        item._initrequest()
        try:
            self._judged.begin(test)
            self._setups.setup(item)
            item.runtest()
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException as error:  # noqa: BLE001 (pytest's own outcomes are no Exceptions)
            return error
        finally:
            self._setups.teardown_exact(following)
            item.funcargs = {}
        return None

    def close(self) -> None:
        """Let pytest take its plugins down."""
        self._config._ensure_unconfigure()


# pytest finds a suite's module again by its name below the root. In a judge that stays that may be a
# file of another course, or one that was edited since.
def _forget(files: Sequence[Path]) -> None:
    names = {f"{file.parent.parent.name}.{file.parent.name}.{file.stem}" for file in files}
    for name in list(sys.modules):
        if any(name == each or name.endswith(f".{each}") for each in names):
            del sys.modules[name]


def _forget_bytecode(files: Sequence[Path]) -> None:
    """Have edited suites compiled again: Python sees no change within a second that keeps the size."""
    for file in files:
        with contextlib.suppress(OSError):
            Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)


def _freeze_modules() -> None:
    """Keep the collector away from what was imported: torch's half a million objects.

    Looking through them again and again is a sixth of a warm judgment.
    """
    gc.collect()
    gc.freeze()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Whatever a suite prints is for nobody."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield


_OPTIONS = [
    "-c",
    os.devnull,
    "--import-mode=importlib",
    "--capture=no",
    "--noconftest",
    # What has a part in every test and none in ours: `grader.course.suite` allows no mark of theirs, and an
    # assert that the first one rewrote would tell the student the suite's source.
    *(
        f"-pno:{plugin}"
        for plugin in (
            "assertion",
            "cacheprovider",
            "debugging",
            "doctest",
            "faulthandler",
            "junitxml",
            "logging",
            "pastebin",
            "setuponly",
            "setupplan",
            "skipping",
            "stepwise",
            "subtests",
            "terminal",
            "threadexception",
            "unittest",
            "unraisableexception",
            "warnings",
        )
    ),
]


class TestRun(msgspec.Struct, frozen=True):
    """A test that ran: what we said of it, and whether pytest saw its function return."""

    file: Path
    name: str
    passed: bool
    seconds: float
    said: TestEnd


class Witness:
    """A plugin that stands where pytest calls a test's function, and where it collects."""

    def __init__(self) -> None:
        self.collection_errors: list[str] = []
        self._returned: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.collection_errors.append(report.longreprtext)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        result = yield
        # Only here if nothing was raised.
        self._returned.append(pyfuncitem.nodeid)
        return result

    def saw_return(self, item: pytest.Item) -> bool:
        """Whether the test's function returned since this was last asked; and no other one did."""
        returned, self._returned = self._returned, []
        if returned not in ([], [item.nodeid]):
            raise JudgeError(
                f"pytest called other tests than {item.nodeid}: {', '.join(returned)}."
            )
        return bool(returned)
