"""Tasks for a warm judge, and results for files that change, with a real judge."""

from __future__ import annotations

import queue
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.cli.watch.loop import Tasks
from grader.course.manifest import load_course
from grader.errors import CourseError
from grader.judge.assignment import JudgeFault, Judgment
from grader.judge.pool import Task
from grader.judge.warm import WarmJudge
from grader.results import Status
from grader.student.progress import Standing
from grader.student.workspace import Workspace

PLAIN = Path(__file__).parents[2] / "courses" / "plain"
Judged = tuple[Task, Judgment | JudgeFault]
RIGHT = b"def greeting(name):\n    return f'Hello, {name}!'\n"


class Desk:
    """Tasks of a fresh clone, and the judgments of their judge."""

    def __init__(self, root: Path) -> None:
        shutil.copytree(PLAIN, root, dirs_exist_ok=True)
        ignored = shutil.ignore_patterns("*.toml")
        shutil.copytree(root / "exercises", root / "tests" / "stubs", ignore=ignored)
        self.workspace = Workspace(load_course(root))
        self.greeting = self.workspace.course.exercise("greeting")
        self._answers: queue.SimpleQueue[Judged | Exception] = queue.SimpleQueue()
        put = self._answers.put
        self._has_begun = threading.Event()
        self.judge = WarmJudge(
            self.workspace.course,
            answer=lambda *judged: put(judged),
            test=lambda task, count: self._has_begun.set(),
            crashed=put,
        )
        self.tasks = Tasks(self.workspace, self.judge)

    def write(self, source: bytes) -> None:
        (self.workspace.course.folder / self.greeting.file).write_bytes(source)
        self.workspace.read_again()

    def wait_for_a_test(self) -> None:
        """Wait until a first test has ended. A task that is called off earlier is never judged."""
        assert self._has_begun.wait(timeout=120)

    def judged(self) -> Judged:
        """Return the next judged task."""
        judged = self._answers.get(timeout=120)
        assert isinstance(judged, tuple)
        return judged


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.judge.close()


def test_an_untouched_stub_needs_no_judge(desk: Desk) -> None:
    assert desk.tasks.known([desk.greeting]) == ()
    desk.tasks.place([desk.greeting])
    assert desk.tasks.open == []
    (result,) = desk.tasks.known([desk.greeting])
    assert result.status is Status.NOT_ATTEMPTED
    assert not desk.tasks.is_new(desk.greeting)


def test_a_file_is_new_until_it_is_placed_and_after_each_change(desk: Desk) -> None:
    desk.write(RIGHT)
    assert desk.tasks.is_new(desk.greeting)
    desk.tasks.place([desk.greeting])
    assert not desk.tasks.is_new(desk.greeting)
    desk.write(RIGHT + b"# more\n")
    assert desk.tasks.is_new(desk.greeting)
    desk.write(RIGHT)
    assert desk.tasks.take(*desk.judged())
    assert not desk.tasks.is_new(desk.greeting)
    assert desk.tasks.known([desk.greeting])[0].status is Status.PASSED


def test_a_verdict_that_was_called_off_is_not_taken(desk: Desk) -> None:
    desk.write(RIGHT)
    desk.tasks.place([desk.greeting])
    (called_off,) = desk.tasks.open
    desk.wait_for_a_test()
    desk.write(b"def greeting(:\n")
    desk.tasks.place([desk.greeting])
    assert desk.tasks.open == []
    task, judged = desk.judged()
    assert task == called_off
    assert not desk.tasks.take(task, judged)
    (result,) = desk.tasks.known([desk.greeting])
    assert result.status is Status.ERROR
    desk.write(RIGHT)
    assert desk.workspace.standings()["greeting"] is Standing.DONE


def test_an_exercise_without_a_suite_cannot_be_judged(desk: Desk) -> None:
    shutil.rmtree(desk.workspace.course.root / "tests" / "public")
    with pytest.raises(CourseError, match="has no suite"):
        desk.tasks.place([desk.greeting])
