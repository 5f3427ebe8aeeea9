"""Too much time or memory costs the submission this exercise, and does not affect other submissions."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.course.manifest import Course
from grader.errors import JudgeError
from grader.judge.assignment import GradingOptions
from grader.judge.pool import Judges
from grader.judge.process import Judge, judges
from grader.results import Outcome, Status, Visibility

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the limits need Linux"),
    pytest.mark.thorough,
]

OPTIONS = GradingOptions(suites=(Visibility.HIDDEN,))
# An answer can make a suite call a C function that never returns, create a huge list, or wait.
SUITE = '''
def test_first(student):
    """The first part"""
    import re
    import time
    what, value = student.function("first")()
    if what == "match":
        assert re.match(r"(a+)+$", value) is None
    if what == "fill":
        assert len([0] * value) > 0
    if what == "sleep":
        time.sleep(value)

def test_second(student):
    """The second part"""
    assert student.function("second")() == 2
'''
# Only one test imports torch, which takes longer than all judging here.
IN_TORCH = SUITE.replace("assert len([0] * value)", "assert len(torch.zeros(value))")
# The limits are a constant and twice the exercise's 8 s.
SHORT = """
import sys
from grader.judge import process
process.{limit} = -15.5
process.main(sys.argv[1:])
"""


def source(what: str, value: object) -> bytes:
    return f"def first():\n    return ({what!r}, {value!r})\ndef second():\n    return 2\n".encode()


class Short(Judges):
    """Judges with a limit of half a second."""

    def _started(self, count: int) -> contextlib.AbstractContextManager[list[Judge]]:
        return judges(count, program="short_judge")


@pytest.fixture
def short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Judges]]:
    """Return a function that starts judges with the named limit set to half a second."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with contextlib.ExitStack() as stack:

        def start(limit: str) -> Judges:
            (tmp_path / "short_judge.py").write_text(SHORT.format(limit=limit))
            return stack.enter_context(Short())

        yield start


@pytest.fixture
def course(tmp_path: Path, write_course: Callable[..., Course]) -> Course:
    return write_course(tmp_path / "course", SUITE)


def test_excess_processor_time_costs_the_exercise_and_the_judge(
    course: Course, short: Callable[[str], Judges]
) -> None:
    exercise, judges = course.exercises[0], short("_PROCESSOR_SECONDS")
    endless = judges.judge(course, exercise, source("match", "a" * 40 + "b"), OPTIONS).result
    assert (endless.status, endless.score) == (Status.TIMEOUT, 0)
    assert {test.outcome for test in endless.tests} == {Outcome.TIMEOUT}
    assert "a minute of processor time" in endless.message
    honest = judges.judge(course, exercise, source("", 0), OPTIONS).result
    assert (honest.status, honest.score) == (Status.PASSED, 10)


@pytest.mark.parametrize(("suite", "value"), [(SUITE, 10**9), (IN_TORCH, 2**32)])
def test_excess_memory_costs_the_exercise_and_the_judge(
    tmp_path: Path, write_course: Callable[..., Course], suite: str, value: int
) -> None:
    course = write_course(tmp_path, suite)
    exercise = course.exercises[0]
    with Judges() as judges:
        huge = judges.judge(course, exercise, source("fill", value), OPTIONS).result
        honest = judges.judge(course, exercise, source("", 0), OPTIONS).result
    assert (huge.status, huge.score) == (Status.ERROR, 0)
    assert "took more memory than a judge may use (2 GiB)" in huge.message
    assert (honest.status, honest.score) == (Status.PASSED, 10)


def test_excess_wall_clock_time_is_a_fault_of_the_grader(
    course: Course, short: Callable[[str], Judges]
) -> None:
    exercise, judges = course.exercises[0], short("_CLOCK_SECONDS")
    with pytest.raises(JudgeError, match="did not finish within"):
        judges.judge(course, exercise, source("sleep", 60), OPTIONS)
