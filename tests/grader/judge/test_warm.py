"""The warm judge: the newest task replaces waiting ones, and an endless one delays nobody."""

from __future__ import annotations

import queue
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from grader.course.manifest import Course, load_course
from grader.judge import warm
from grader.judge.assignment import JudgeFault, Judgment
from grader.judge.pool import Task
from grader.judge.warm import WarmJudge
from grader.results import Status

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
RIGHT = b"def greeting(name):\n    return f'Hello, {name}!'\n"
ENDLESS = b"import time\nwhile True:\n    time.sleep(1)\n"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """Return a copy of the plain course."""
    shutil.copytree(PLAIN, tmp_path, dirs_exist_ok=True)
    return load_course(tmp_path)


Judged = tuple[Task, Judgment | JudgeFault]
Judging = tuple[WarmJudge, "queue.SimpleQueue[Judged]"]


def passed(judged: Judgment | JudgeFault) -> bool:
    """Whether a task was judged and passed."""
    return isinstance(judged, Judgment) and judged.result.status is Status.PASSED


@pytest.fixture
def others() -> set[int]:
    """Return the ids of judges of other tests, which this session keeps warm."""
    return judges_but(set())


@pytest.fixture
def judging(course: Course, others: set[int]) -> Iterator[Judging]:
    """Yield a warm judge and the queue of its judgments."""
    answers: queue.SimpleQueue[Judged] = queue.SimpleQueue()

    def crashed(error: Exception) -> None:
        raise error

    judge = WarmJudge(
        course,
        answer=lambda *judged: answers.put(judged),
        test=lambda task, count: None,
        crashed=crashed,
    )
    yield judge, answers
    judge.close()
    assert judges_but(others) == set()


def judges_but(others: set[int]) -> set[int]:
    """Return the ids of judges started by this process, without those of other tests."""
    started = psutil.Process().children()
    return {each.pid for each in started if "grader.judge.process" in each.cmdline()} - others


def task(number: int, source: bytes = RIGHT) -> Task:
    return Task(number, "greeting", source)


def test_tasks_are_judged_one_after_the_other(course: Course, judging: Judging) -> None:
    judge, answers = judging
    judge.ask([task(1), task(1, b"greeting = None\n")])
    (first, judged), (_, second) = answers.get(timeout=60), answers.get(timeout=60)
    assert first.source == RIGHT and passed(judged)
    assert isinstance(second, Judgment) and second.result.status is not Status.PASSED


def test_waiting_tasks_are_replaced(course: Course, judging: Judging) -> None:
    judge, answers = judging
    judge.ask([task(number) for number in range(50)])
    judge.ask([task(99)])
    numbers = [answers.get(timeout=60)[0].number]
    while numbers[-1] != 99:
        numbers.append(answers.get(timeout=60)[0].number)
    assert len(numbers) < 4


def test_an_endless_loop_is_ended_for_a_newer_task(
    course: Course, judging: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "_COLD_SECONDS", 0.5)
    judge, answers = judging
    judge.ask([task(1, ENDLESS)])
    judge.ask([task(2)])
    # Threads decide whether the endless task has begun. If it has, it gets no verdict.
    ended, judged = answers.get(timeout=60)
    if ended.number == 1:
        assert isinstance(judged, JudgeFault)
        ended, judged = answers.get(timeout=60)
    assert ended.number == 2
    assert passed(judged)


LOOPING = b"""
calls = []

def word_count(text):
    calls.append(text)
    while len(calls) > 1:
        pass
    return {}

def most_common(text, n):
    return word_count(text)
"""


def test_a_loop_is_called_off_and_the_judge_is_kept(
    course: Course, others: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A judgment called off has no verdict. Ending its judge as well would start another one.
    monkeypatch.setattr(warm, "_COLD_SECONDS", 1e6)
    answers: queue.SimpleQueue[Judged] = queue.SimpleQueue()
    tests: queue.SimpleQueue[int] = queue.SimpleQueue()
    judge = WarmJudge(
        course,
        answer=lambda *judged: answers.put(judged),
        test=lambda task, count: tests.put(count),
        crashed=lambda error: None,
    )
    try:
        judge.ask([Task(1, "word_count", LOOPING)])
        assert tests.get(timeout=60) == 1  # the next one loops
        (pid,) = judges_but(others)
        judge.ask([task(2)])
        (called_off, fault), (_, judged) = answers.get(timeout=60), answers.get(timeout=60)
        assert called_off.number == 1 and isinstance(fault, JudgeFault)
        assert passed(judged)
        assert judges_but(others) == {pid}
    finally:
        judge.close()


def test_a_judge_that_is_gone_is_replaced(
    course: Course, judging: Judging, others: set[int]
) -> None:
    judge, answers = judging
    judge.ask([task(1)])
    answers.get(timeout=60)
    (pid,) = judges_but(others)
    process = psutil.Process(pid)
    process.kill()
    process.wait(20)
    judge.ask([task(2)])
    _, judged = answers.get(timeout=60)
    if isinstance(judged, JudgeFault):
        judge.ask([task(3)])
        _, judged = answers.get(timeout=60)
    assert passed(judged)


def test_a_fault_of_a_suite_is_reported(course: Course, judging: Judging) -> None:
    judge, answers = judging
    suite = course.root / "tests/public/text/test_greeting.py"
    suite.write_text(suite.read_text("utf-8").replace('("Ada")', "(nobody)"), encoding="utf-8")
    judge.ask([task(1)])
    _, fault = answers.get(timeout=60)
    assert isinstance(fault, JudgeFault)
    assert "The suite of 'greeting' is at fault" in fault.message


def test_closing_during_a_judgment_does_not_wait(course: Course, judging: Judging) -> None:
    judge, answers = judging
    judge.ask([task(1, ENDLESS)])
    judge.close()
    assert answers.empty() or isinstance(answers.get()[1], JudgeFault)
