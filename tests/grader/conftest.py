"""A warm judge shared by all tests of a session, and courses written by tests."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from grader.course.manifest import Course, load_course
from grader.judge.assignment import GradingOptions, Judgment
from grader.judge.process import Judge, judge_source, judges
from grader.results import Visibility
from tests.grader.command import kept

MANIFEST = """\
format_version = 1
name = "small"
title = "A small course"
version = "1"

[[exercise]]
id = "task"
chapter = "one"
title = "A task"
points = 10
seconds = 8
difficulty = 1
minutes = 1
teaches = "Something."
hints = ["a", "b", "c"]
preload = []
"""

# Tests have no deadline, since a busy machine draws examples slowly.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

JudgeSource = Callable[..., Judgment]
WriteCourse = Callable[..., Course]


def _write_course(
    root: Path,
    suite: str,
    probe: str = "",
    *,
    extra: str = "",
    solution: str = "",
    seconds: int = 8,
) -> Course:
    manifest = MANIFEST.replace("seconds = 8", f"seconds = {seconds}") + extra
    imports = "import pytest\n"
    # A suite without tensors is judged without torch, which saves a second.
    if "torch" in suite + probe + solution:
        manifest = manifest.replace("preload = []", 'preload = ["torch"]')
        imports += "import torch\n"
    imports += "from grader.judge.checks import assert_close, assert_equal, must_raise\n"
    files = {
        "exercises/course.toml": manifest,
        "exercises/one/task.py": "raise NotImplementedError\n",
        "tests/hidden/one/test_task.py": imports + suite,
    }
    if probe:
        files["tests/hidden/one/probe_task.py"] = probe
    if solution:
        files["solutions/one/task.py"] = solution
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return load_course(root)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Use two workers for each processor, since tests spend a third of their time waiting.

    They wait for a time limit, a server or a disk. Each worker collects all tests and starts its own judges, so
    more workers cost more than they gain. None lets pytest-xdist use the number in the environment, if given.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, which would take a fifth of the time.

    Collected tests live until the end, so they are excluded from garbage collection.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Replace the user's cache by one for the tests and the processes that they start."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def _judges_of_commands() -> Iterator[None]:
    yield
    kept.close()


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder in memory, if possible, so that tests with thousands of writes do not wait for a disk.

    A killed process leaves the same files there as on a disk. Only a power cut would differ.
    """
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def write_course() -> WriteCourse:
    """Return a function that writes a course of one exercise with a hidden suite (and probe) to a folder."""
    return _write_course


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """Yield one judge with one fork server for all tests."""
    with judges(preload=("torch",)) as (judge,):
        yield judge


@pytest.fixture
def judged(judge: Judge, tmp_path: Path) -> JudgeSource:
    """Return a function that judges `source` with a hidden suite (and probe) given as text.

    Tests of endless code pass few `seconds`, of which a call may use a quarter.
    """

    def run(
        source: str,
        suite: str,
        probe: str = "",
        *,
        seed: int = 0,
        extra: str = "",
        solution: str = "",
        seconds: int = 8,
    ) -> Judgment:
        course = _write_course(
            tmp_path, suite, probe, extra=extra, solution=solution, seconds=seconds
        )
        return judge_source(
            judge,
            course,
            course.exercises[0],
            source.encode(),
            GradingOptions(seed, (Visibility.HIDDEN,)),
        )

    return run
