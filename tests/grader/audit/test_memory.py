"""The memory of processes that run student code has no words of the hidden suite or the solution."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.audit.catalogue import CATALOGUE
from grader.audit.evidence import descendants
from grader.course.manifest import load_course
from grader.judge.assignment import GradingOptions
from grader.judge.process import judge_source, judges
from grader.results import Visibility

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read through /proc"),
    pytest.mark.skipif(
        sys.platform == "linux" and os.geteuid() != 0,
        reason="needs root: the memory of a sandbox is closed to its own user",
    ),
]

# During the last test of the suite, it puts a mark into its memory and waits until the mark was seen.
STUDENT = b"""
import os
import signal

MARK = "the-student-was-" + "here-4c1d"


def scale(x, factor):
    return factor * x


def doubled(numbers):
    return [2 * number for number in numbers]


def steps(count):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    waiting = "-".join(["the", "student", "waits", "77e0"])
    os.read(reader, 1)
    return [2 * each + 1 for each in range(count)]
"""
HIDDEN = (
    b"canary:suite:",
    b"canary:solution:",
    b"The module scales, and learns",
    b"torch.testing.assert_close(y, 1 * x)",
    b"no sandbox may ever hold a word of it",
)
SOLUTION = {b"canary:solution:", b"no sandbox may ever hold a word of it"}


def pieces(pid: int) -> Iterator[bytes]:
    """Yield the writable memory of a process, which has Python's objects."""
    with (
        contextlib.suppress(OSError),
        Path(f"/proc/{pid}/maps").open() as maps,
        Path(f"/proc/{pid}/mem").open("rb", 0) as memory,
    ):
        for line in maps:
            span, rights = line.split()[:2]
            start, end = (int(each, 16) for each in span.split("-"))
            if rights.startswith("rw"):
                with contextlib.suppress(OSError, OverflowError):
                    memory.seek(start)
                    yield memory.read(end - start)


def words_in(pid: int, words: tuple[bytes, ...]) -> set[bytes]:
    return {word for piece in pieces(pid) for word in words if word in piece}


@pytest.mark.thorough
def test_the_memory_of_a_sandbox_has_nothing_hidden(tmp_path: Path) -> None:
    shutil.copytree(CATALOGUE / "course", tmp_path / "course")
    manifest = tmp_path / "course" / "exercises" / "course.toml"
    # Searching the memory is slow, so the exercise gets more time.
    manifest.write_text(manifest.read_text().replace("seconds = 4", "seconds = 120"))
    course = load_course(tmp_path / "course")
    waiting = b"the-student-waits-77e0"
    own = (waiting, b"the-student-was-here-4c1d", b"it contains nothing that students must not see")
    before = descendants()
    # The words found in each process during the last test of the suite.
    held: dict[int, set[bytes]] = {}
    with judges(preload=("torch",)) as (judge,):
        of_judge = {judge._process.pid, *descendants(judge._process.pid)}
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.05):
                for pid in descendants() - before - of_judge:
                    if waiting in words_in(pid, own):
                        held.update(
                            (pid, words_in(pid, (*HIDDEN, *own)))
                            for pid in descendants() - before - of_judge
                        )
                        os.kill(pid, signal.SIGUSR1)

        watcher = threading.Thread(target=look)
        watcher.start()
        options = GradingOptions(suites=(Visibility.HIDDEN,))
        try:
            result = judge_source(judge, course, course.exercise("scale"), STUDENT, options).result
        finally:
            over.set()
            watcher.join()
    assert [test.outcome.value for test in result.tests] == ["passed", "error", "passed", "error"]
    # Another sandbox runs the solution. It knows the solution, and nothing of the student.
    (solutions,) = [pid for pid, words in held.items() if b"canary:solution:" in words]
    words = held.pop(solutions)
    assert not words & {*own[:2], *(set(HIDDEN) - SOLUTION)}
    # The fork server and the sandbox were searched, and the known data was found.
    assert len(held) >= 2
    words = set().union(*held.values())
    assert set(own) <= words
    assert not words & set(HIDDEN)
