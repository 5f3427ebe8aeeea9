"""The memory of all that runs student code holds no word of the hidden suite or the solution."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.audit.catalogue import CATALOGUE
from grader.audit.leavings import descendants
from grader.course.manifest import load_course
from grader.judge.assignment import GradingOptions
from grader.judge.process import judge_source, judges
from grader.results import Visibility

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read through /proc"),
    pytest.mark.skipif(
        sys.platform == "linux" and os.geteuid() != 0,
        reason="a sandbox's memory is closed to its own user; only root can look into it",
    ),
]

# Says when the suite is in the middle of its last test, and waits to be looked at.
STUDENT = b"""
import time

MARK = "the-student-was-" + "here-4c1d"


def scale(x, factor):
    return factor * x


def doubled(numbers):
    return [2 * number for number in numbers]


def steps(count):
    time.sleep(0.9)
    return [2 * each + 1 for each in range(count)]
"""
HIDDEN = (
    b"canary:suite:",
    b"canary:solution:",
    b"The module scales, and learns",
    b"torch.testing.assert_close(y, 1 * x)",
    b"no sandbox may ever hold a word of it",
)


def pieces(pid: int) -> Iterator[bytes]:
    """The writable memory of a process, where Python's objects are."""
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


def found_in(pids: set[int], words: tuple[bytes, ...]) -> set[bytes]:
    return {
        word for pid in sorted(pids) for piece in pieces(pid) for word in words if word in piece
    }


def test_the_memory_of_a_sandbox_holds_nothing_hidden() -> None:
    course = load_course(CATALOGUE / "course")
    exercise = course.exercise("scale")
    before = descendants()
    seen: set[bytes] = set()
    looked: set[int] = set()
    own = (b"the-student-was-here-4c1d", b"it holds nothing that is not theirs to see")
    with judges(preload=("torch",)) as (judge,):
        of_judge = judge._process.pid
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                pids = descendants() - before - {of_judge} - descendants(of_judge)
                found = found_in(pids, (*HIDDEN, *own))
                seen.update(found)
                looked.update(pids)
                time.sleep(0.05)

        watcher = threading.Thread(target=look)
        watcher.start()
        options = GradingOptions(suites=(Visibility.HIDDEN,))
        result = judge_source(judge, course, exercise, STUDENT, options).result
        over.set()
        watcher.join()
    assert [test.outcome.value for test in result.tests] == ["passed", "error", "passed"]
    # The fork server and the sandbox at least, and what must be there was found.
    assert len(looked) >= 2
    assert set(own) <= seen
    assert not seen & set(HIDDEN)
