"""A function that loops costs no more than one that raises: each share has its own time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from grader.course.manifest import Course, Exercise
from grader.judge.assignment import Judgment
from grader.judge.session import Budget
from grader.results import Outcome

JudgeSource = Callable[..., Judgment]

SHARES = "shares = { Layer = 60, flow = 40 }\n"


@pytest.fixture
def exercise(write_course: Callable[..., Course], tmp_path: Path) -> Exercise:
    """Return an exercise of 8 seconds with two shares."""
    return write_course(tmp_path, "", extra=SHARES).exercises[0]


def loop(budget: Budget, share: str) -> float:
    """Return the seconds that an endless test of this share takes."""
    budget.begin(share)
    seconds = budget.left
    budget.spend(seconds)
    budget.time_out()
    return seconds


def test_each_timeout_halves_the_time_until_none_is_left(exercise: Exercise) -> None:
    budget = Budget(exercise)
    assert [loop(budget, "Layer") for _ in range(3)] == [2, 1, 0.5]
    assert (budget.is_out("Layer"), budget.is_out("flow"), budget.is_used_up) == (
        True,
        False,
        False,
    )
    assert [loop(budget, "flow") for _ in range(3)] == [1, 0.5, 0.25]


def test_a_share_keeps_its_seconds_when_others_use_theirs_up(exercise: Exercise) -> None:
    budget = Budget(exercise)
    for _ in range(5):
        budget.begin("Layer")
        budget.spend(1.75)
    assert budget.is_used_up
    assert budget.is_out("Layer")
    budget.begin("flow")
    assert (budget.left, budget.is_used_up, budget.is_out("flow")) == (1, False, False)


def test_time_before_the_first_test_is_charged_to_no_share(exercise: Exercise) -> None:
    budget = Budget(exercise)
    assert budget.left == 2
    budget.spend(1.5)
    budget.begin("Layer")
    assert budget.left == 2


def test_loops_everywhere_take_a_bounded_time(exercise: Exercise) -> None:
    shares = {f"part_{number}": 1.0 for number in range(10)}
    many = msgspec.structs.replace(exercise, shares=shares)
    budget = Budget(many)
    total = 0.0
    for share in shares:
        while not budget.is_out(share):
            total += loop(budget, share)
    # The first share takes 7/16 of the seconds, the nine others half of that.
    assert total == exercise.seconds * (7 / 16) * (1 + 9 / 2) < many.most_seconds


def test_an_exercise_without_shares_has_one_time(exercise: Exercise) -> None:
    budget = Budget(msgspec.structs.replace(exercise, shares={}))
    assert [loop(budget, "") for _ in range(5)] == [2, 2, 2, 2, 0]
    assert budget.is_used_up


SUITE = """
@pytest.mark.place("Layer")
def test_built(student):
    '''It is built'''
    student.module("Layer")

@pytest.mark.requires("test_built")
@pytest.mark.place("Layer.forward")
def test_skipped(student):
    '''Skipped at no cost'''

@pytest.mark.place("Layer.forward")
def test_forward(student):
    '''Forward'''
    student.module("Layer")(torch.ones(1))

@pytest.mark.place("Layer.forward")
def test_again(student):
    '''Again'''
    student.module("Layer")(torch.ones(1))

@pytest.mark.place("Layer")
def test_last(student):
    '''The last one'''
    student.module("Layer")

@pytest.mark.place("flow")
def test_flow(student):
    '''Flow'''
    assert student.function("flow")() == 1
"""
SOURCE = """
import torch
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {built}
    def forward(self, x):
        {forward}
        return x
def flow():
    {flow}
    return 1
"""


@pytest.mark.parametrize("place", ["built", "forward", "flow"])
def test_a_loop_costs_what_an_exception_costs(judged: JudgeSource, place: str) -> None:
    scores = []
    for end in ("raise RuntimeError", "import time; time.sleep(60)"):
        bodies = {"built": "pass", "forward": "pass", "flow": "pass", place: end}
        scores.append(judged(SOURCE.format(**bodies), SUITE, extra=SHARES, seconds=2).result.score)
    assert scores == [{"built": 4, "forward": 7.6, "flow": 6}[place]] * 2


def test_a_loop_is_reported_with_its_limit_and_line(judged: JudgeSource) -> None:
    source = SOURCE.format(built="import time; time.sleep(60)", forward="pass", flow="pass")
    result = judged(source, SUITE, extra=SHARES, seconds=4).result
    outcomes = {test.name: test.outcome for test in result.tests}
    timeout = dict.fromkeys(
        ("test_built", "test_forward", "test_again", "test_last"), Outcome.TIMEOUT
    )
    assert outcomes == timeout | {"test_skipped": Outcome.SKIPPED, "test_flow": Outcome.PASSED}
    built, _, forward, again, last, _ = result.tests
    limits = [f"Your code gave no answer within {limit} s." for limit in ("1", "0.5", "0.25")]
    assert [test.message.partition(" It was ")[0] for test in (built, forward, again)] == limits
    assert "still running line 6, in __init__. Is there a loop" in built.message
    assert last.message == 'Layer ran out of time: first correct "It is built".'
