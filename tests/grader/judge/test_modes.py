"""A global mode that a file leaves on is named once, as the cause of the failures due to it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

import pytest

from grader.judge.assignment import Judgment
from grader.judge.modes import told_by_modes
from grader.results import Cause, Outcome, TestResult, Visibility
from grader.student.blocks import problems
from tests.grader.builders import checked

JudgeSource = Callable[..., Judgment]

SUITE = '''
import torch

def test_gradient(student):
    """A gradient"""
    x = torch.ones(2, requires_grad=True)
    y = student.function("twice")(x)
    assert y.requires_grad

def test_sum(student):
    """A sum"""
    x = torch.ones(2, requires_grad=True)
    assert_equal(student.function("twice")(x).sum().requires_grad, True)

def test_wrong(student):
    """Another mistake"""
    assert_equal(student.function("wrong")(), 1)
'''
SOURCE = """
import torch
def twice(x):
    with torch.no_grad():
        pass
    return 2 * x
def wrong():
    return 2
"""


def test_the_mode_and_its_line_are_reported_once(judged: JudgeSource) -> None:
    result = judged(SOURCE + "torch.set_grad_enabled(False)\n", SUITE).result
    gradient, total, wrong = result.tests
    assert "gradients are switched off (set_grad_enabled, line 9)" in gradient.message
    assert gradient.place is not None and gradient.place.line == 9
    assert gradient.finding is not None and gradient.finding.plain == (gradient.message,)
    assert total.message == gradient.message
    assert (wrong.outcome, wrong.place) == (Outcome.FAILED, None)
    assert "mode" not in wrong.message
    assert [len(finding.tests) for finding in problems(result)] == [2, 1]
    assert result.score == 0


LEFT_ON = """
import torch, warnings
def first():
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    warnings.simplefilter("error")
    return 1
def second():
    warnings.warn("old")
    x = torch.ones(1, requires_grad=True) * 2
    assert (x.device.type, x.dtype, x.requires_grad) == ("cpu", torch.float32, True)
    return 2
"""
PARTS = '''
import torch

def test_first(student):
    """The first part"""
    assert_equal(student.function("first")(), 1)

def test_second(student):
    """The second part"""
    assert_equal(student.function("second")(), 2)
'''


def test_a_mode_set_in_one_test_does_not_reach_the_next(judged: JudgeSource) -> None:
    result = judged(LEFT_ON, PARTS).result
    assert [(test.outcome, test.message) for test in result.tests] == [(Outcome.PASSED, "")] * 2


def explained(
    source: str, modes: Sequence[str], *results: TestResult, passing: Sequence[str] = ()
) -> list[TestResult]:
    def passes(tried: Sequence[TestResult]) -> set[tuple[Visibility, str]]:
        return {(result.visibility, result.name) for result in tried if result.name in passing}

    return told_by_modes(modes, ast.parse(source), "modules/glu.py", results, passes)


FAILED = checked("test_a", Outcome.FAILED)


@pytest.mark.parametrize(
    ("source", "mode", "line"),
    [
        ("import torch\ntorch.set_grad_enabled(False)", "grad", 2),
        ("with torch.no_grad():\n  f()\ntorch.inference_mode().__enter__()", "grad", 3),
        ("@torch.no_grad()\ndef f(): ...\nset_grad_enabled(False)", "grad", 3),
        ("def f():\n  torch.set_grad_enabled(False)\nf()", "grad", 2),
        ("from torch import set_grad_enabled as s\ns(False)", "grad", 1),
        ("torch.set_default_tensor_type(torch.DoubleTensor)", "dtype", 1),
        ("\ntorch.set_default_device('meta')", "device", 2),
        ("\nwarnings.simplefilter('error')", "warnings", 2),
        ("import helper", "grad", None),
    ],
)
def test_the_line_that_sets_a_mode_is_found(source: str, mode: str, line: int | None) -> None:
    (result,) = explained(source, [mode], FAILED, passing=["test_a"])
    assert (result.place.line if result.place else None) == line
    assert (result.outcome, result.cause, result.score) == (Outcome.ERROR, Cause.OTHER, 0)


def test_only_tests_that_pass_without_the_mode_are_blamed_on_it() -> None:
    held, other = checked("test_b"), checked("test_c", Outcome.FAILED)
    results = explained("f()", ["grad"], FAILED, held, other, passing=["test_a", "test_b"])
    assert results[0].message.endswith("Without this change, the test passes.")
    assert results[1:] == [held, other]


@pytest.mark.parametrize("modes", [[], ["\x1b[31m"], ["no such mode"]])
def test_unknown_modes_reported_by_a_sandbox_are_ignored(modes: Sequence[str]) -> None:
    assert explained("f()", modes, FAILED, passing=["test_a"]) == [FAILED]
