"""Points for words of the sandbox need right values, and replies of another seed reveal them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from grader.judge.assignment import Judgment
from grader.results import Outcome
from grader.student.blocks import Note, blocks_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.grader.cli.conftest import Grade

SUITE = """
@pytest.mark.points(8)
@pytest.mark.place("double")
def test_values(student):
    '''Values'''
    x = torch.randn(3)
    assert torch.equal(student.function("double")(x), 2 * x)

@pytest.mark.place("double")
@pytest.mark.word("the sandbox says that it raised")
def test_error(student):
    '''Error'''
    with pytest.raises(ValueError):
        student.function("double")(None)

@pytest.mark.place("other")
@pytest.mark.word("the sandbox says so")
def test_other(student):
    '''Other'''
    assert student.function("other")() is True
"""
SOURCE = """
def double(x):
    if x is None:
        raise ValueError("x")
    return {factor} * x
def other():
    return True
"""


@pytest.mark.parametrize(
    ("factor", "outcomes", "score"),
    [
        (2, [Outcome.PASSED, Outcome.PASSED, Outcome.PASSED], 10),
        # Words about `other` count by themselves: no test looks at its values.
        (3, [Outcome.FAILED, Outcome.PASSED, Outcome.PASSED], 1),
    ],
)
def test_words_about_a_function_count_only_if_its_values_are_right(
    judged: Callable[..., Judgment], factor: int, outcomes: list[Outcome], score: float
) -> None:
    result = judged(SOURCE.format(factor=factor), SUITE).result
    assert [test.outcome for test in result.tests] == outcomes
    assert result.score == score
    if factor == 3:
        values, words, _ = result.tests
        told = "1 other test passed, but earns its points only once more results are right."
        assert blocks_of(values)[-1] == Note(told)
        assert (words.message, words.score, words.max_score) == ("", 0, 0)
        assert values.max_score == sum(test.max_score for test in result.tests) - 1


def test_replies_of_another_seed_earn_the_points_for_words(grade: Grade, clone: Path) -> None:
    done = grade("verify", "--words", "running_mean", "greeting", cwd=clone)
    assert done.stdout.splitlines() == [
        "x greeting: 100.0% of the points for words",
        "  - public test_greeting: 1",
        "x running_mean: 20.0% of the points for words",
        "  - hidden test_no_torch: 1",
        "2 exercises. 2 are above a tenth.",
    ]
    assert done.returncode == 1


def test_a_suite_that_draws_its_inputs_gives_no_points_for_words(grade: Grade, clone: Path) -> None:
    suite = clone / "tests/hidden/arrays/test_running_mean.py"
    source = suite.read_text("utf-8")
    start = source.index("@pytest.mark.unproven")
    suite.write_text(source[:start].replace("import sys\n", ""), encoding="utf-8")
    done = grade("verify", "--words", "running_mean", cwd=clone)
    assert done.stdout.splitlines()[0] == "+ running_mean: 0.0% of the points for words"
    assert done.returncode == 0


@pytest.mark.thorough
def test_forged_replies_earn_what_the_audit_prints(grade: Grade, clone: Path) -> None:
    done = grade("audit", "--forge", "running_mean", "word_count", cwd=clone)
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "x word_count: at most 85.7% of the points",
        "  replay: 85.7%",
        "  error: 14.3%",
    ]
    assert lines[-1] == "2 exercises. In 2, a forgery earns more than a tenth."
    assert done.returncode == 1
