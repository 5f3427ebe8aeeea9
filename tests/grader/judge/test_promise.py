"""Tests that compare an answer with the course's solution, on the same draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from grader.course.digest import exercise_digest
from grader.course.manifest import unseal
from grader.errors import JudgeError
from grader.findings import message_of
from grader.judge.assignment import Judgment
from grader.judge.checks import Draw
from grader.judge.checks.comparison import Rule
from grader.judge.checks.promise import _check_tensor
from grader.judge.outcomes import CheckFailed
from grader.judge.recognition import alike
from grader.results import Cause, Finding, Outcome, TestResult
from tests.grader.conftest import WriteCourse

JudgeSource = Callable[..., Judgment]

SOLUTION = """
import torch
from torch import nn

def scale(x, factor=3.0):
    return x * factor

def names(k):
    if k < 1:
        raise ValueError(f"k is {k}")
    return ["a", "b", "c"][:k]

class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, size))

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight)
"""
HEAD = """
from grader.judge.checks import (
    any_dtype, any_gradients, exactly, promise, raises, unordered, within
)
"""


def suite(body: str, parameters: str = "code, draw") -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return f'{HEAD}\n@promise("scale", hint="Try.")\ndef test_it({parameters}):\n    """It holds."""\n{lines}'


SCALED = suite('yield "the output", code.function("scale")(draw.normal(3, grad="x"))')


def only(judged: Judgment) -> TestResult:
    (test,) = judged.result.tests
    return test


def test_a_right_answer_passes_and_a_wrong_one_is_explained(judged: JudgeSource) -> None:
    right = "def scale(x, factor=3.0):\n    return x + 2 * x\n"
    assert only(judged(right, SCALED, solution=SOLUTION)).outcome is Outcome.PASSED
    wrong = only(judged("def scale(x): return x * 2\n", SCALED, solution=SOLUTION))
    assert (wrong.outcome, wrong.cause, wrong.hint) == (Outcome.FAILED, Cause.VALUES, "Try.")
    assert wrong.message.startswith("3 of 3 elements of the output (shape (3,), float32) differ.")


@pytest.mark.parametrize(
    ("source", "message", "cause"),
    [
        ("return (x * 3).detach()", "The output does not require a gradient", Cause.LAW),
        ("return (x.detach() * 3) + 0 * x", "No gradient reaches x", Cause.LAW),
        ("return Own.apply(x)", "The gradient ignores the incoming gradient", Cause.MISTAKE),
        ("return x.detach() + 2 * x", "3 of 3 elements of the gradient of x", Cause.GRADIENT),
        ("return None", "Your code returned None as the output", Cause.NOTHING),
        ("return x.double() * 3", "The output has dtype torch.float64", Cause.TYPE),
        ("return x * 3 / 0 * 0", "3 of 3 entries of the output are not finite", Cause.LAW),
    ],
)
def test_gradients_types_and_dtypes_are_compared_too(
    judged: JudgeSource, source: str, message: str, cause: Cause
) -> None:
    head = """
import torch

class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        return torch.full_like(grad, 3.0)
"""
    # Random numbers of both signs, whose sum is not 0.
    test = only(judged(f"{head}\ndef scale(x):\n    {source}\n", SCALED, solution=SOLUTION))
    assert test.message.startswith(message), test.message
    assert test.cause is cause


def test_a_nan_is_reported_with_its_place_and_the_other_values() -> None:
    nan, right = math.nan, torch.tensor([[1.0, 2.0], [3.0, 4.0]])

    def finding(*values: float) -> Finding:
        with pytest.raises(CheckFailed) as raised:
            _check_tensor(torch.tensor(values).view(2, 2), right, Rule(), "the output")
        return raised.value.finding

    found = finding(1, nan, 3, 4)
    assert found.cause is Cause.VALUES, "so that a known mistake is recognized"
    assert message_of(found).endswith("\nIt is at [0, 1].\nThe others are right.")
    for other in (finding(nan, 2, 3, 4), finding(1, nan, 3, 5), finding(1, nan, nan, 4)):
        assert not alike(found, other)
    assert alike(finding(1, nan, 3, 5), finding(1, nan, 3, 5.000001))
    assert not alike(finding(1, nan, 3, 5), finding(1, nan, 3, 6))
    assert finding(nan, nan, nan, nan).cause is Cause.LAW, "nothing else would tell mistakes apart"


def test_intermediate_rounding_to_float32_is_reported(judged: JudgeSource) -> None:
    text = suite('yield "the output", code.function("scale")(draw.normal(40, dtype=torch.float64))')
    source = "def scale(x): return (x.float() * 3).double()\n"
    test = only(judged(source, f"import torch\n{text}", solution=SOLUTION))
    assert test.message.startswith("In float64 the output is right only to the precision of float")


@pytest.mark.parametrize(
    ("body", "answer", "passes"),
    [
        ('yield "n", code.function("names")(3)', 'return ("a", "b", "c")', True),
        ('yield "n", code.function("names")(3)', 'return ["c", "b", "a"]', False),
        ('yield "n", unordered(code.function("names")(3))', 'return ["c", "b", "a"]', True),
        ('yield "n", unordered(code.function("names")(3))', 'return ["c", "b", "b"]', False),
        ('yield "n", raises(ValueError, "k", code.function("names"), 0)', "return []", False),
        (
            'yield "n", raises(ValueError, "k", code.function("names"), 0)',
            "raise ValueError('k')",
            True,
        ),
        (
            'yield "n", raises(ValueError, "k", code.function("names"), 0)',
            "raise KeyError('k')",
            False,
        ),
        ('yield "n", len(code.function("names")(2))', "return [1, 2]", True),
    ],
)
def test_wrappers_loosen_the_comparison(
    judged: JudgeSource, body: str, answer: str, passes: bool
) -> None:
    test = only(judged(f"def names(k):\n    {answer}\n", suite(body), solution=SOLUTION))
    assert (test.outcome is Outcome.PASSED) is passes, test.message


@pytest.mark.parametrize(
    ("free", "answer", "passes"),
    [
        ("any_dtype", "x.double() * 3", True),
        ("any_dtype", "x.double() * 2", False),
        ("any_gradients", "x.detach() * 3", True),
        ("within", "x * 3.01", True),
        ("within", "x * 3.3", False),
        ("exactly", "x * 3", True),
        ("exactly", "x * 3 * (1 + 1e-6)", False),
    ],
)
def test_tolerances_dtypes_and_gradients_can_be_freed(
    judged: JudgeSource, free: str, answer: str, passes: bool
) -> None:
    more = ", rtol=0.02" if free == "within" else ""
    grad = ', grad="x"' if free == "any_gradients" else ""
    body = f'yield "y", {free}(code.function("scale")(draw.normal(3{grad})){more})'
    test = only(judged(f"def scale(x): return {answer}\n", suite(body), solution=SOLUTION))
    assert (test.outcome is Outcome.PASSED) is passes, test.message


def test_a_yielded_value_may_be_changed_afterwards(judged: JudgeSource) -> None:
    """The solution's value is taken at the moment it is yielded."""
    body = """
layer = draw.fill(code.module("Layer", 3))
yield "the weight", any_gradients(layer.weight)
draw.fill(layer)
yield "the next weight", any_gradients(layer.weight)
"""
    source = "import torch\nfrom torch import nn\n" + LAYER
    for _ in range(2):
        test = only(judged(source, suite(body), solution=SOLUTION))
        assert test.outcome is Outcome.PASSED, test.message


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("a * b.detach()", ""),
        ("a * b.detach() + 0 * b", ""),
        ("a * b", "A gradient reaches b, which no gradient should reach: detach it."),
    ],
)
def test_no_gradient_may_reach_inputs_that_the_solution_detaches(
    judged: JudgeSource, answer: str, message: str
) -> None:
    body = 'yield "y", code.function("product")(draw.normal(3, grad="a"), draw.normal(3, grad="b"))'
    solution = "def product(a, b): return a * b.detach()\n"
    source = f"import torch\ndef product(a, b): return {answer}\n"
    test = only(judged(source, f"import torch\n{suite(body)}", solution=solution))
    assert test.message == message
    assert (test.outcome is Outcome.PASSED) == (not message)


FILLED = suite('yield "y", draw.fill(code.module("Layer", 3), scale=2.0)(draw.normal(4, 3))')
LAYER = SOLUTION[SOLUTION.index("class Layer") :]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("zeros(2, size)", "randn(2, size)", ""),
        ("self.weight", "self.w", "There is no parameter named weight: make self.weight"),
        (
            "zeros(2, size)",
            "zeros(size, 2)",
            "The layer's weight has shape (3, 2), expected (2, 3)",
        ),
        ("x, self.weight", "x, 2 * self.weight", "8 of 8 elements of y"),
    ],
)
def test_layers_are_filled_with_the_same_numbers(
    judged: JudgeSource, old: str, new: str, message: str
) -> None:
    source = "import torch\nfrom torch import nn\n" + LAYER.replace(old, new)
    test = only(judged(source, FILLED, solution=SOLUTION))
    assert test.message.startswith(message)
    assert (test.outcome is Outcome.PASSED) == (not message)


def test_a_parameter_may_belong_to_a_submodule(judged: JudgeSource) -> None:
    source = """
from torch import nn

class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inner = nn.Linear(size, 2, bias=False)

    def forward(self, x):
        return self.inner(x)
"""
    assert only(judged(source, FILLED, solution=SOLUTION)).outcome is Outcome.PASSED


def test_an_answer_that_changes_the_number_of_results_fails(judged: JudgeSource) -> None:
    body = 'for name in code.function("names")(2):\n    yield f"case {name}", 1'
    for names in ('["a"]', '["a", "b", "c"]', '["b", "a"]', "[]"):
        test = only(judged(f"def names(k): return {names}\n", suite(body), solution=SOLUTION))
        assert (
            test.message
            == "Your code does not give the number of results that the exercise promises."
        )


def test_a_value_that_the_test_cannot_use_is_an_error_of_the_answer(judged: JudgeSource) -> None:
    body = 'yield "the names", "+".join(code.function("names")(2))'
    test = only(judged("def names(k): return 7\n", suite(body), solution=SOLUTION))
    assert (test.outcome, test.cause) == (Outcome.ERROR, Cause.TYPE)


def test_draws_do_not_depend_on_the_answer(judged: JudgeSource) -> None:
    """Running the solution leaves the judge's random states unchanged."""
    body = """
x = code.function("scale")(draw.normal(2))
yield "first", x
yield "second", code.function("scale")(torch.randn(3) + draw.size())
"""
    right = "import torch\ndef scale(x):\n    torch.randn(7)\n    return x * 3\n"
    text = f"import torch\n{suite(body)}"
    for _ in range(2):
        assert only(judged(right, text, solution=SOLUTION)).outcome is Outcome.PASSED


def test_the_solution_runs_apart_and_its_values_are_cached(judged: JudgeSource) -> None:
    solution = """
import builtins, os, time

builtins.seen = True
open("left_behind", "w").close()

def scale(x):
    return time.time_ns()
"""
    answer = """
import builtins, os

def scale(x):
    return float(hasattr(builtins, "seen") or os.path.exists("left_behind"))
"""
    text = suite('yield "the time", code.function("scale")(1.0)')
    first, second = (
        only(judged(answer + f"# {n}\n", text, solution=solution)).message for n in range(2)
    )
    assert first == second
    assert first.startswith("The time is 0, expected ")


def test_a_missing_or_failing_solution_is_a_fault_of_the_course(judged: JudgeSource) -> None:
    right = "def scale(x): return x * 3\n"
    with pytest.raises(
        JudgeError, match="test_it compares with the course's solution, which solut"
    ):
        judged(right, SCALED)
    with pytest.raises(JudgeError, match="test_it: the course's own solution, line 2: KeyError"):
        judged(right, SCALED, solution='def scale(x):\n    raise KeyError("secret")\n')
    with pytest.raises(JudgeError, match=r"own solution of .* is not valid Python: line 2: '\('"):
        judged(right, SCALED, solution="import torch\ndef scale(x:\n")
    text = suite('yield "names(9)", raises(ValueError, "k", code.function("names"), 9)')
    with pytest.raises(JudgeError, match="test_it: the course's own solution does not pass it"):
        judged("def names(k): raise ValueError('k')\n", text, solution=SOLUTION)
    assert only(judged(right, SCALED, solution=SOLUTION)).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (suite('yield "x", 1', "student"), "test_it yields cases: it takes `code` and `draw`"),
        (suite("pass"), "takes `code` and `draw`, and yields nothing to compare"),
        (
            suite('yield "x", 1').replace('promise("scale", hint=', "pytest.mark.hint("),
            "is @promise",
        ),
        (suite('yield "x", 1').replace("hint=", "hnit="), "promise has no 'hnit'. Did you mean"),
        (suite('yield "x", 1').replace('"Try."', "HINT"), "all of them literals"),
    ],
)
def test_a_suite_that_compares_nothing_is_a_fault_of_the_course(
    judged: JudgeSource, text: str, message: str
) -> None:
    with pytest.raises(JudgeError, match=message):
        judged("def scale(x): return x\n", text, solution=SOLUTION)


def test_a_case_without_a_name_is_a_fault_of_the_course(judged: JudgeSource) -> None:
    for body in ('yield code.function("scale")(draw.normal(3))', "yield 1, 2", 'yield "a", 1, 2'):
        with pytest.raises(JudgeError, match="a test yields pairs of a name and a value"):
            judged("def scale(x): return x * 3\n", suite(body), solution=SOLUTION)


def test_a_verdict_depends_on_the_solution_if_a_test_compares_with_it(
    write_course: WriteCourse, tmp_path: Path
) -> None:
    def digest(text: str, solution: str) -> str:
        course = write_course(tmp_path, text, solution=solution)
        return exercise_digest(course, course.exercises[0])

    assert digest(SCALED, SOLUTION) != digest(SCALED, f"{SOLUTION}# new\n")
    law = suite("assert student", "student")
    assert digest(law, SOLUTION) == digest(law, f"{SOLUTION}# new\n")
    course = write_course(tmp_path, SCALED, solution=SOLUTION)
    sealed = course.name_of(course.sealed_solution(course.exercises[0]))
    assert unseal(course.judged_files()[sealed]).decode() == SOLUTION


def test_equal_seeds_give_equal_draws_in_every_dtype() -> None:
    one, other = Draw(3), Draw(3)
    assert torch.equal(one.normal(4), other.normal(4, dtype=torch.float64).float())
    assert torch.equal(one.uniform(9, low=-2, high=2), other.uniform(9, low=-2, high=2))
    assert torch.equal(one.integers(9, low=3, high=5), other.integers(9, low=3, high=5))
    assert torch.equal(one.permutation(9), other.permutation(9))
    assert (one.size(), one.seed(), one.choice("abc"), one.number()) == (
        other.size(),
        other.seed(),
        other.choice("abc"),
        other.number(),
    )
    assert not torch.equal(Draw(3).normal(4), Draw(4).normal(4))
    x = one.normal(2, grad="x")
    assert x.is_leaf
    assert x.requires_grad
    assert one.leaves == {"x": x}
