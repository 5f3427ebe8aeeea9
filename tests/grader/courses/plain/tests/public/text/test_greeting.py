"""One greeting; the exercise has no hidden suite."""

from __future__ import annotations

import pytest

from grader.judge.checks import assert_equal
from grader.judge.student import Student


@pytest.mark.place("greeting")
@pytest.mark.hint("An f-string does it.")
def test_greeting(student: Student) -> None:
    """Ada is greeted by her name."""
    assert_equal(student.function("greeting")("Ada"), "Hello, Ada!")
