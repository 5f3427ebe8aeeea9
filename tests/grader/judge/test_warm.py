"""The warm judge: the newest order wins, and what hangs keeps nobody waiting."""

from __future__ import annotations

import queue
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from grader.course.manifest import Course, load_course
from grader.judge import warm
from grader.judge.warm import Answer, Order, WarmJudge
from grader.results import Status

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
RIGHT = b"def greeting(name):\n    return f'Hello, {name}!'\n"
ENDLESS = b"while True:\n    pass\n"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A clone of the plain course."""
    shutil.copytree(PLAIN, tmp_path, dirs_exist_ok=True)
    return load_course(tmp_path)


Judging = tuple[WarmJudge, "queue.SimpleQueue[Answer]"]


@pytest.fixture
def others() -> set[int]:
    """The judges of other tests, which this session keeps warm."""
    return judges_but(set())


@pytest.fixture
def judging(course: Course, others: set[int]) -> Iterator[Judging]:
    """A warm judge, and where its answers come."""
    answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()

    def crashed(error: Exception) -> None:
        raise error

    judge = WarmJudge(course, answer=answers.put, test=lambda order, count: None, crashed=crashed)
    yield judge, answers
    judge.close()
    assert judges_but(others) == set()


def judges_but(others: set[int]) -> set[int]:
    """The judges that this process started, without those of other tests."""
    started = psutil.Process().children()
    return {each.pid for each in started if "grader.judge.process" in each.cmdline()} - others


def order(course: Course, number: int, source: bytes = RIGHT) -> Order:
    return Order(number, course.exercise("greeting"), source)


def test_orders_are_judged_one_after_the_other(course: Course, judging: Judging) -> None:
    judge, answers = judging
    judge.ask([order(course, 1), order(course, 1, b"greeting = None\n")])
    first, second = answers.get(timeout=60), answers.get(timeout=60)
    assert first.order.source == RIGHT
    assert first.result is not None and first.result.status is Status.PASSED
    assert second.result is not None and second.result.status is not Status.PASSED


def test_what_waits_is_replaced(course: Course, judging: Judging) -> None:
    judge, answers = judging
    judge.ask([order(course, number) for number in range(50)])
    judge.ask([order(course, 99)])
    numbers = [answers.get(timeout=60).order.number]
    while numbers[-1] != 99:
        numbers.append(answers.get(timeout=60).order.number)
    assert len(numbers) < 4


def test_an_endless_loop_is_ended_for_what_is_newer(
    course: Course, judging: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "_COLD_SECONDS", 0.5)
    judge, answers = judging
    judge.ask([order(course, 1, ENDLESS)])
    judge.ask([order(course, 2)])
    # Whether the endless one was begun is a matter of threads; if so, it has no verdict.
    answer = answers.get(timeout=60)
    if answer.order.number == 1:
        assert answer.result is None
        answer = answers.get(timeout=60)
    assert answer.order.number == 2
    assert answer.result is not None and answer.result.status is Status.PASSED


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


def test_a_loop_is_called_off_and_the_judge_goes_on(
    course: Course, others: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is called off has no verdict, and what is ended with its judge would leave another judge.
    monkeypatch.setattr(warm, "_COLD_SECONDS", 1e6)
    answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
    tests: queue.SimpleQueue[int] = queue.SimpleQueue()
    judge = WarmJudge(
        course,
        answer=answers.put,
        test=lambda order, count: tests.put(count),
        crashed=lambda error: None,
    )
    try:
        judge.ask([Order(1, course.exercise("word_count"), LOOPING)])
        assert tests.get(timeout=60) == 1  # the next one loops
        (pid,) = judges_but(others)
        judge.ask([order(course, 2)])
        called_off, answer = answers.get(timeout=60), answers.get(timeout=60)
        assert (called_off.order.number, called_off.result) == (1, None)
        assert answer.result is not None and answer.result.status is Status.PASSED
        assert judges_but(others) == {pid}
    finally:
        judge.close()


def test_a_judge_that_is_gone_is_replaced(
    course: Course, judging: Judging, others: set[int]
) -> None:
    judge, answers = judging
    judge.ask([order(course, 1)])
    answers.get(timeout=60)
    (pid,) = judges_but(others)
    process = psutil.Process(pid)
    process.kill()
    process.wait(20)
    judge.ask([order(course, 2)])
    answer = answers.get(timeout=60)
    if answer.result is None:
        judge.ask([order(course, 3)])
        answer = answers.get(timeout=60)
    assert answer.result is not None and answer.result.status is Status.PASSED


def test_a_fault_of_a_suite_is_an_answer(course: Course, judging: Judging) -> None:
    judge, answers = judging
    suite = course.root / "tests/public/text/test_greeting.py"
    suite.write_text(suite.read_text("utf-8").replace('("Ada")', "(nobody)"), encoding="utf-8")
    judge.ask([order(course, 1)])
    answer = answers.get(timeout=60)
    assert answer.result is None
    assert "The suite of 'greeting' is at fault" in answer.fault


def test_closing_in_the_middle_waits_for_nobody(course: Course, judging: Judging) -> None:
    judge, answers = judging
    judge.ask([order(course, 1, ENDLESS)])
    judge.close()
    assert answers.empty() or answers.get().result is None
