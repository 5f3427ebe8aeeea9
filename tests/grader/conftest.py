"""A warm judge, shared by the tests of a session, and courses that tests write themselves."""

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

# No test is timed, and a busy machine draws slowly.
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
    # Whose suite has no tensors is judged without torch, in a second less.
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
    """Two workers for each processor: a third of its time a test waits, for a time limit, a server or a disk.

    Each worker collects all tests and starts judges of its own, so that more of them cost more than they use.
    None, where the environment says how many, leaves it to pytest-xdist.
    """
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and have it ignore the collected tests, which stay to the end.

    It takes a fifth of the time of collecting.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of the tests' own in the place of the user's, also for the processes that they start."""
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
    """A folder in memory, where that has one: what a test writes a thousand times waits for no disk.

    A process that is killed leaves there what it leaves on a disk; only a power cut would not.
    """
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def write_course() -> WriteCourse:
    """Write a course of one exercise with this hidden suite (and probe) to a folder."""
    return _write_course


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """One judge and one fork server for all tests."""
    with judges(preload=("torch",)) as (judge,):
        yield judge


@pytest.fixture
def judged(judge: Judge, tmp_path: Path) -> JudgeSource:
    """Judge `source` with a hidden suite (and probe) that the test gives as text.

    A test of code that loops gives it few `seconds`, of which a call may use a quarter.
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
