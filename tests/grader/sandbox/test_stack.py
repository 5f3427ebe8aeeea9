"""A stack that a sandbox prints before it ends is not part of the student's output."""

from __future__ import annotations

import pytest

from grader.sandbox.client import MAX_OUTPUT, Output

STACK = (
    b"Stack (most recent call first):\n"
    b'  File "one/task.py", line 3 in f\n'
    b'  File "/installed/grader/sandbox/forkserver.py", line 99 in main\n'
)
FIRST_FRAME = STACK.index(b"  File") + len(b'  File "one/task.py", line 3 in f\n')


@pytest.mark.parametrize("end", range(FIRST_FRAME, len(STACK) + 1))
def test_a_stack_that_was_cut_off_leaves_no_lines(end: int) -> None:
    output = Output()
    output.add(b"once more\n")
    output.add(STACK[:end])
    assert output.take_stack().startswith(STACK[:FIRST_FRAME])
    assert output.text() == "once more\n"


@pytest.mark.parametrize("room", [1, 10, len(STACK) - 1])
def test_a_stack_that_does_not_fit_leaves_nothing(room: int) -> None:
    output = Output()
    output.add(b"x" * (MAX_OUTPUT - room))
    output.add(STACK)
    assert output.take_stack() == STACK
    assert output.text() == "x" * (MAX_OUTPUT - room)


def test_output_after_a_stack_is_kept() -> None:
    output = Output()
    output.add(STACK + b"and on\n")
    assert output.take_stack() == STACK
    assert output.text() == "and on\n"


def test_a_line_of_the_profiler_is_not_the_students_output() -> None:
    output = Output()
    output.add(b"mine\nFailed to read process name for pid 1\nFailed to read, I say\n")
    assert output.text() == "mine\nFailed to read, I say\n"
