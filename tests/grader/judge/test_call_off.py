"""A judgment can be called off at any moment, and its judge is then ready for the next one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.judge.pool import CallOff, LocalPool, Task
from grader.judge.process import _lines
from grader.sandbox.forking import CAN_FORK

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
RIGHT = (PLAIN / "solutions" / "text" / "greeting.py").read_bytes()
# Without a call-off, it would end after the 8 s of the exercise.
ENDLESS = b"import time\n\ndef greeting(name):\n    while True:\n        time.sleep(1)\n"


@pytest.mark.skipif(not CAN_FORK, reason="only forked sandboxes can be called off")
def test_a_judgment_that_is_called_off_ends_at_once() -> None:
    with LocalPool(load_course(PLAIN), 1, GradingOptions()) as pool:
        # The judge has just started the first time, and has waited after that.
        for _ in range(3):
            call_off = CallOff()
            call_off.ask()
            judged = pool.complete(Task(0, "greeting", ENDLESS), None, call_off)
            assert isinstance(judged, JudgeFault) and "called off" in judged.message
        judged = pool.complete(Task(1, "greeting", RIGHT))
        assert isinstance(judged, Judgment) and judged.result.score == judged.result.max_score


def test_lines_say_whether_another_one_follows() -> None:
    reading, writing = os.pipe()
    try:
        lines = _lines(reading)
        os.write(writing, b"one\n")
        assert next(lines) == (b"one\n", False)
        os.write(writing, b"two\nthree\nfo")
        assert next(lines) == (b"two\n", True)
        assert next(lines) == (b"three\n", True)
        os.write(writing, b"ur\n")
        assert next(lines) == (b"four\n", False)
        os.close(writing)
        assert list(lines) == []
    finally:
        os.close(reading)
