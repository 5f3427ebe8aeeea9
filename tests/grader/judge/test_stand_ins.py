"""A mistake in an earlier function is carried forward: the solution replaces it in later tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grader.judge.assignment import Judgment
from grader.results import Outcome, TestResult
from grader.student.blocks import remarks

JudgeSource = Callable[..., Judgment]

EXTRA = """
shares = { scale = 1, total = 1 }
builds_on = { total = ["scale"] }
"""
SOLUTION = """
import torch

def scale(x, factor=3.0):
    if factor == 0:
        raise ZeroDivisionError("factor is 0")
    return x * factor

def total(x, factor=3.0):
    return scale(x, factor).sum()
"""
SUITE = """
from grader.judge.checks import promise, raises

@promise("scale", hint="x * factor")
def test_scale(code, draw):
    \"\"\"It scales.\"\"\"
    yield "the result", code.function("scale")(draw.normal(3))

@promise("total", hint="Add up.", after="test_scale")
def test_total(code, draw):
    \"\"\"It adds up, and a gradient comes back.\"\"\"
    yield "the total", code.function("total")(draw.normal(3, grad="x"))

@promise("total", hint="Hand it on.", word="that it raised")
def test_refusal(code, draw):
    \"\"\"What scale refuses is refused.\"\"\"
    yield "the refusal", raises(ZeroDivisionError, "factor", code.function("total"), draw.normal(3), 0)
"""
WRONG = "import torch\ndef scale(x, factor=3.0):\n    return x * 2\n"
UNWRITTEN = 'def scale(x, factor=3.0):\n    raise NotImplementedError("scale: to do")\n'
TOTAL = "def total(x, factor=3.0):\n    return scale(x, factor).sum()\n"


def by_name(judgment: Judgment) -> dict[str, TestResult]:
    return {test.name: test for test in judgment.result.tests}


@pytest.mark.parametrize("scale", [WRONG, UNWRITTEN, "def scale(*_):\n    raise KeyError(1)\n"])
def test_a_mistake_costs_once(judged: JudgeSource, scale: str) -> None:
    judgment = judged(scale + TOTAL, SUITE, solution=SOLUTION, extra=EXTRA)
    tests = by_name(judgment)
    assert tests["test_scale"].outcome is not Outcome.PASSED
    for name in ("test_total", "test_refusal"):
        assert (tests[name].outcome, tests[name].stood_in) == (Outcome.PASSED, ("scale",))
    assert judgment.result.score == 5
    remark = (
        "A mistake costs once: in 2 tests of later functions, the course's own scale answers until"
    )
    assert remark in remarks(judgment.result)


def test_a_second_mistake_is_reported_without_the_first(judged: JudgeSource) -> None:
    source = WRONG + "def total(x, factor=3.0):\n    return scale(x, factor).sum() + 1\n"
    test = by_name(judged(source, SUITE, solution=SOLUTION, extra=EXTRA))["test_total"]
    assert (test.outcome, test.stood_in, test.uses) == (Outcome.FAILED, ("scale",), ())
    assert test.finding is not None
    assert "1" in test.finding.values.values() or "1" in test.message


@pytest.mark.parametrize(
    "source",
    [
        # The solution does not stand in if the earlier function is unused or right.
        WRONG + "def total(x, factor=3.0):\n    return (x * 2).sum()\n",
        SOLUTION.replace(".sum()", ".sum() + 1"),
    ],
)
def test_a_mistake_in_the_later_function_costs_points(judged: JudgeSource, source: str) -> None:
    test = by_name(judged(source, SUITE, solution=SOLUTION, extra=EXTRA))["test_total"]
    assert (test.outcome is Outcome.PASSED, test.stood_in) == (False, ())


def test_without_builds_on_nothing_stands_in(judged: JudgeSource) -> None:
    shares = "shares = { scale = 1, total = 1 }\n"
    test = by_name(judged(WRONG + TOTAL, SUITE, solution=SOLUTION, extra=shares))["test_total"]
    assert (test.outcome, test.stood_in) == (Outcome.SKIPPED, ())


@pytest.mark.parametrize(
    "call",
    [
        "scale(lambda: x, factor)",  # not plain data
        "scale(object(), factor)",
        "[scale(x, factor) for _ in range(10**9)][0]",  # endless
        "Thread(target=lambda: got.append(scale(x, factor))).start() or got[0]",
    ],
)
def test_a_failed_second_run_keeps_the_first_outcome(judged: JudgeSource, call: str) -> None:
    head = "from threading import Thread\ngot = []\n"
    source = f"{head}{WRONG}def total(x, factor=3.0):\n    return {call}.sum()\n"
    suite = SUITE.replace(', after="test_scale"', "")
    tests = by_name(judged(source, suite, solution=SOLUTION, extra=EXTRA, seconds=2))
    assert tests["test_total"].outcome in (Outcome.FAILED, Outcome.ERROR, Outcome.TIMEOUT)
    assert tests["test_total"].stood_in == ()


def test_the_earlier_function_is_still_judged_by_itself(judged: JudgeSource) -> None:
    # The student's code keeps answers of the solution, but its own test runs in another sandbox.
    source = (
        "import torch\nkept = {}\ndef scale(x, factor=3.0):\n    return kept.get(0, x * 2)\n"
        "def total(x, factor=3.0):\n    kept[0] = scale(x, factor)\n    return kept[0].sum()\n"
    )
    again = SUITE + SUITE[SUITE.index("@promise") : SUITE.index('@promise("total"')].replace(
        "def test_scale", "def test_scale_later"
    )
    tests = by_name(judged(source, again, solution=SOLUTION, extra=EXTRA))
    assert tests["test_total"].outcome is Outcome.PASSED
    assert tests["test_scale_later"].outcome is Outcome.FAILED


def test_a_stand_in_cannot_be_used_to_ask_for_other_functions(judged: JudgeSource) -> None:
    """The attack reaches the judge through the stand-in, to have the solution compute the answer."""
    source = """
import torch

def scale(x, factor=3.0):
    return x * 2

def total(x, factor=3.0):
    ours = scale.__globals__
    ask = next(cell.cell_contents for cell in scale.__closure__ if callable(cell.cell_contents))
    packing = ours["Packing"]()
    call = ours["StandInCall"]("total", packing.pack([x]), packing.pack({}))
    return ask(call, packing)[1].tensors[0]
"""
    judgment = judged(source + "    scale(x)\n", SUITE, solution=SOLUTION, extra=EXTRA)
    test = by_name(judgment)["test_total"]
    assert (test.outcome, test.stood_in) == (Outcome.SKIPPED, ())
    # Reading these attributes is reported before it happens, and staff look at the file.
    assert any("__globals__" in reason for reason in judgment.result.held), judgment.result.held


FORBIDDEN = """
[[exercise.forbidden]]
names = ["torch.Tensor.detach", "torch.autograd.Function"]
operators = ["aten::detach"]
inside = ["total"]
reason = "stay in the graph"
"""


def test_forbidden_operators_may_be_used_by_the_stand_in_itself(judged: JudgeSource) -> None:
    test = by_name(judged(WRONG + TOTAL, SUITE, solution=SOLUTION, extra=EXTRA + FORBIDDEN))[
        "test_total"
    ]
    assert (test.outcome, test.stood_in) == (Outcome.PASSED, ("scale",))
    source = (
        WRONG + "def total(x, factor=3.0):\n    return (scale(x, factor) + x.detach() * 0).sum()\n"
    )
    test = by_name(judged(source, SUITE, solution=SOLUTION, extra=EXTRA + FORBIDDEN))["test_total"]
    assert (test.outcome is Outcome.PASSED, test.stood_in) == (False, ())


def test_a_second_run_that_does_not_ask_the_solution_is_ignored(judged: JudgeSource) -> None:
    source = f"""
{WRONG}
scale.mine = True

def total(x, factor=3.0):
    return x.sum() if hasattr(scale, "mine") else (x * factor).sum()
"""
    test = by_name(judged(source, UNCHAINED, solution=SOLUTION, extra=EXTRA))["test_total"]
    assert (test.outcome, test.stood_in) == (Outcome.FAILED, ())


UNCHAINED = SUITE.replace(', after="test_scale"', "")


@pytest.mark.thorough
def test_a_second_run_takes_no_time_from_later_tests(judged: JudgeSource) -> None:
    slow = """
@promise("total", hint="Add up.")
def test_slow_NUMBER(code, draw):
    \"\"\"Run NUMBER.\"\"\"
    yield "the total", code.function("total")(draw.normal(3))
"""
    last = """
@promise("total", hint="Nothing is nothing.")
def test_nothing(code, draw):
    \"\"\"Without an x there is nothing.\"\"\"
    yield "the total", code.function("total")(None)
"""
    suite = SUITE[: SUITE.index('@promise("total"')] + "".join(
        slow.replace("NUMBER", str(number)) for number in range(4)
    )
    head = "    if x is None:\n        return 0.0\n"
    solution = SOLUTION.replace(
        "    return scale(x, factor).sum()\n", f"{head}    return scale(x, factor).sum()\n"
    )
    many = "    return [scale(x, factor).sum() for _ in range(20_000)][0]\n"
    source = f"{WRONG}def total(x, factor=3.0):\n{head}{many}"
    tests = by_name(judged(source, suite + last, solution=solution, extra=EXTRA, seconds=4))
    assert tests["test_nothing"].outcome is Outcome.PASSED
    for number in range(4):
        test = tests[f"test_slow_{number}"]
        assert (test.outcome, test.stood_in) == (Outcome.FAILED, ())


def test_the_output_of_the_counted_run_is_shown(judged: JudgeSource) -> None:
    source = (
        f"{WRONG}scale.mine = True\ndef total(x, factor=3.0):\n"
        "    print('first' if hasattr(scale, 'mine') else 'second')\n    return scale(object(), factor)\n"
    )
    source = source.replace("return x * 2", "return torch.zeros(())")
    test = by_name(judged(source, UNCHAINED, solution=SOLUTION, extra=EXTRA))["test_total"]
    assert (test.outcome, test.stood_in, test.printed) == (Outcome.FAILED, (), "first")


def test_a_module_loaded_again_has_the_stand_ins(judged: JudgeSource) -> None:
    suite = SUITE.replace(
        'code.function("total")(draw.normal(3, grad="x"))', 'code.anew("added", draw.normal(3))'
    )
    probe = "def added(student, x):\n    return student.total(x)\n"
    test = by_name(judged(WRONG + TOTAL, suite, probe, solution=SOLUTION, extra=EXTRA))[
        "test_total"
    ]
    assert (test.outcome, test.stood_in) == (Outcome.PASSED, ("scale",))
