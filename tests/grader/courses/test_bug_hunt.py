"""The stub of bug_hunt is a program with eight bugs. Each fixed bug earns its part independently."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.grading import settle
from grader.judge.assignment import GradingOptions
from grader.judge.preloading import modules_of
from grader.judge.process import Judge, judge_source, judges
from grader.results import Status
from grader.submissions import ExerciseFile

pytestmark = pytest.mark.thorough

COURSE = load_course(Path(__file__).parents[3])
EXERCISE = COURSE.exercise("bug_hunt")
STUB = ast.unparse(ast.parse(COURSE.stub(EXERCISE).source.decode()))
SOLUTION = ast.unparse(ast.parse(COURSE.solution(EXERCISE).read_text(encoding="utf-8")))
# For each bug, lines of the stub and the same lines in the solution.
TRAINING = "train_loss = train_epoch(model, training, classification_loss, optimizer)"
BUGS = {
    "sorted": ("shuffle=False", "shuffle=True"),
    "rate": ("lr=10,", "lr=0.1,"),
    "softmax": ("logits.softmax(dim=1)", "logits"),
    "zero_grad": (
        "        loss.backward()",
        "        optimizer.zero_grad()\n        loss.backward()",
    ),
    "train": ("    total = 0.0", "    model.train()\n    total = 0.0"),
    "eval": ("    total, hits, samples", "    model.eval()\n    total, hits, samples"),
    "no_grad": ("def evaluate(", "@torch.no_grad()\ndef evaluate("),
    "seed": (f"torch.manual_seed(seed)\n        {TRAINING}", TRAINING),
}
PART = EXERCISE.points / len(BUGS)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with judges(preload=modules_of(COURSE, [EXERCISE])) as (judge,):
        yield judge


def score(judge: Judge, source: str) -> float:
    return judge_source(judge, COURSE, EXERCISE, source.encode(), GradingOptions()).result.score


def fixed(*bugs: str) -> str:
    source = STUB
    for bug in bugs:
        old, new = BUGS[bug]
        assert source.count(old) == 1, bug
        source = source.replace(old, new)
    return source


def test_fixing_all_bugs_gives_the_solution() -> None:
    assert fixed(*BUGS) == SOLUTION


@pytest.mark.parametrize("bug", BUGS)
def test_a_fixed_bug_earns_its_part(judge: Judge, bug: str) -> None:
    assert score(judge, fixed(bug)) == pytest.approx(PART)


@pytest.mark.parametrize("bug", BUGS)
def test_a_remaining_bug_costs_its_part(judge: Judge, bug: str) -> None:
    others = [other for other in BUGS if other != bug]
    assert score(judge, fixed(*others)) == pytest.approx(EXERCISE.points - PART)


def test_not_attempted_and_begun_are_told_apart() -> None:
    options = GradingOptions()
    untouched = settle(COURSE, EXERCISE, ExerciseFile(STUB.encode()), options)
    assert untouched is not None
    assert (untouched.status, untouched.score) == (Status.NOT_ATTEMPTED, 0.0)
    begun = STUB + "\nprint(fit)\n"
    assert settle(COURSE, EXERCISE, ExerciseFile(begun.encode()), options) is None


def test_an_edit_that_fixes_nothing_earns_nothing(judge: Judge) -> None:
    result = judge_source(
        judge, COURSE, EXERCISE, (STUB + "\nprint(fit)\n").encode(), GradingOptions()
    ).result
    assert (result.status, result.score) == (Status.FAILED, 0.0)
