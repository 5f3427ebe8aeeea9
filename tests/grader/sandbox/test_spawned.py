"""Where nothing can be forked, a sandbox is a process of its own and judges the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grader.course.manifest import Course
from grader.judge.assignment import GradingOptions
from grader.judge.process import judge_source, judges
from grader.results import Outcome, Visibility


@pytest.mark.parametrize("walls", [True, False])
def test_a_spawned_sandbox_judges_the_same(
    tmp_path: Path, write_course: Callable[..., Course], walls: bool
) -> None:
    suite = '''
def test_gradient(student):
    """A gradient"""
    x = torch.ones(2, requires_grad=True)
    student.function("twice")(x).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 2.0))

def test_end(student):
    """An end"""
    student.function("end")()
'''
    source = (
        "import os\nprint('hello')\ndef twice(x):\n    return 2 * x\ndef end():\n    os._exit(1)\n"
    )
    course = write_course(tmp_path, suite)
    with judges(fork=False, walls=walls) as (judge,):
        judged = judge_source(
            judge,
            course,
            course.exercises[0],
            source.encode(),
            GradingOptions(suites=(Visibility.HIDDEN,)),
        )
    first, second = judged.result.tests
    assert (first.outcome, second.outcome) == (Outcome.PASSED, Outcome.ERROR), first.message
    assert judged.result.output == "hello\n"
    assert bool(judged.walls) == walls
