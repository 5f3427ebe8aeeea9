"""Separate sandboxes: `apart` runs none of the student's code, `anew` loads it again."""

from __future__ import annotations

from collections.abc import Callable

from grader.judge.assignment import Judgment
from grader.results import Outcome

JudgeSource = Callable[..., Judgment]

SUITE = """
@pytest.mark.place("value")
def test_apart(student):
    '''Apart'''
    assert_equal(student.run("root", 16.0), 7.0)
    assert_equal(student.apart("root", 16.0), 4.0)
    assert_equal(student.apart("names"), [])
    assert_equal(student.run("root", 9.0), 7.0)
    assert_equal(student.function("value")(), 1)

@pytest.mark.place("value")
def test_anew(student):
    '''Anew'''
    for _ in range(2):
        assert_equal(student.run("root", 16.0), 7.0)
        assert_equal(student.run("kept", 1), 1)
        assert_equal(student.run("kept"), 1)
        assert_equal(student.anew("kept", 2), 2)
        assert_equal(student.anew("kept"), None)
        assert_equal(student.anew("root", 16.0), 7.0)
        assert_equal(student.anew("answer"), 1)
    with pytest.raises(ZeroDivisionError):
        student.anew("fail")

@pytest.mark.place("value")
def test_no_time_of_its_own(student):
    '''Time'''
    student.apart("loop")

@pytest.mark.place("value")
def test_afterwards(student):
    '''Afterwards'''
    assert_equal(student.function("value")(), 1)
"""
PROBE = """
import math

def root(module, number):
    return math.sqrt(number)

def kept(module, number=None):
    if number is not None:
        module.kept = number
    return getattr(module, "kept", None)

def answer(module):
    return module.value()

def fail(module):
    return module.fail()

def names(module):
    return [name for name in vars(module) if not name.startswith("__")]

def loop(module):
    while True:
        pass
"""
SOURCE = """
import math
math.sqrt = lambda number: 7.0
def value():
    return 1
def fail():
    return 1 / 0
"""


def test_changes_by_the_student_do_not_reach_other_sandboxes(judged: JudgeSource) -> None:
    result = judged(SOURCE, SUITE, PROBE, seconds=4).result
    first, anew, second, third = result.tests
    assert first.outcome is Outcome.PASSED, first.message
    assert anew.outcome is Outcome.PASSED, anew.message
    assert second.outcome is Outcome.TIMEOUT
    # A quarter of the exercise's 4 s, as in the student's own sandbox.
    assert "within 1 s" in second.message
    assert third.outcome is Outcome.PASSED, third.message
