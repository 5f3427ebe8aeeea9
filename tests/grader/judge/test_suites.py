"""Suites imported by a judge: every submission finds them in the same state."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from grader.errors import JudgeError
from grader.judge.assignment import Judgment
from grader.results import Outcome

JudgeSource = Callable[..., Judgment]

RIGHT = "def first():\n    return 1\n"
WRONG = "def first():\n    return 2\n"
SUITE = '''
def test_first(student):
    """The first part"""
    assert_equal(student.function("first")(), 1)
'''


def outcomes(judged: Judgment) -> list[Outcome]:
    return [test.outcome for test in judged.result.tests]


def test_submissions_do_not_affect_each_other(judged: JudgeSource) -> None:
    for source, outcome in [(RIGHT, Outcome.PASSED), (WRONG, Outcome.FAILED)] * 2:
        assert outcomes(judged(source, SUITE)) == [outcome]


@pytest.mark.parametrize(
    "parameters", ["", "student, tmp_path", "tmp_path", "*, student=None, x=1"]
)
def test_a_test_takes_only_the_student(judged: JudgeSource, parameters: str) -> None:
    with pytest.raises(JudgeError, match=r"line 4: test_first takes `student`, or `code`"):
        judged(RIGHT, SUITE.replace("(student)", f"({parameters})"))
    assert outcomes(judged(RIGHT, SUITE)) == [Outcome.PASSED]


@pytest.mark.parametrize(
    "more",
    [
        "test_first = lambda student: None",
        "def helper(student): pass\ntest_first = helper",
        "del test_first",
        "test_second = lambda student: None",
        "from grader.judge.checks import assert_equal as test_second",
        "if True:\n    def test_second(student): pass",
        "async def test_second(student): pass",
    ],
)
def test_a_suite_with_undeclared_or_replaced_tests_is_a_fault(
    judged: JudgeSource, more: str
) -> None:
    with pytest.raises(JudgeError, match=r"test_task\.py: test_(first|second) is"):
        judged(RIGHT, f"{SUITE}\n{more}\n")


def test_a_generator_test_without_a_promise_is_a_fault(judged: JudgeSource) -> None:
    with pytest.raises(JudgeError, match="test_first yields cases: it takes"):
        judged(WRONG, SUITE + "    yield\n")


def test_an_edited_suite_is_read_again(judged: JudgeSource) -> None:
    assert outcomes(judged(RIGHT, SUITE)) == [Outcome.PASSED]
    assert outcomes(judged(RIGHT, SUITE.replace("1)", "2)"))) == [Outcome.FAILED]
    assert outcomes(judged(RIGHT, SUITE)) == [Outcome.PASSED]


def test_a_suite_that_cannot_be_imported_is_a_fault_until_it_is_fixed(judged: JudgeSource) -> None:
    for slip, message in (
        (
            "import nowhere_at_all",
            "No module named 'nowhere_at_all'. A suite may import torch, pytest",
        ),
        (
            "from probe_task import x",
            "functions that run beside the student's code into probe_task.py.",
        ),
        ("from grader.judge.checks import assert_eqal", "Did you mean 'assert_equal'"),
        ("X = pytset.mark", "NameError: name 'pytset' is not defined."),
        ("X = 1 / 0", "ZeroDivisionError: division by zero."),
    ):
        with pytest.raises(JudgeError) as raised:
            judged(RIGHT, f"{slip}\n{SUITE}")
        (line,) = str(raised.value).splitlines()
        assert line.startswith(
            "The suite tests/hidden/one/test_task.py cannot be imported: line 3: "
        )
        assert message in line
    assert outcomes(judged(RIGHT, SUITE)) == [Outcome.PASSED]


@pytest.mark.parametrize("end", ['pytest.exit("enough")', "raise SystemExit(3)"])
def test_a_suite_that_exits_affects_one_submission_only(judged: JudgeSource, end: str) -> None:
    suite = f'{SUITE}\ndef test_second(student):\n    """The second part"""\n    {end}\n'
    with pytest.raises(JudgeError):
        judged(RIGHT, suite)
    assert outcomes(judged(RIGHT, SUITE)) == [Outcome.PASSED]


ONCE = '''
def count(student):
    return student.once("count", lambda: student.run("count"))

def test_first(student):
    """The first part"""
    assert count(student) == 1

def test_second(student):
    """The second part"""
    assert count(student) == 1
'''


def test_once_computes_a_shared_value_once_for_each_submission(judged: JudgeSource) -> None:
    probe = "calls = []\ndef count(module):\n    calls.append(1)\n    return len(calls)\n"
    for _ in range(2):
        assert outcomes(judged(RIGHT, ONCE, probe)) == [Outcome.PASSED] * 2


def test_an_exception_in_once_is_raised_in_each_test(judged: JudgeSource) -> None:
    probe = (
        "calls = []\ndef count(module):\n    calls.append(1)\n    raise ValueError(len(calls))\n"
    )
    first, second = judged(RIGHT, ONCE, probe).result.tests
    assert first.message == second.message
    assert "ValueError" in first.message


def test_a_crash_is_not_kept(judged: JudgeSource) -> None:
    suite = "import itertools\nCODES = itertools.count(1)\n" + ONCE.replace(
        'student.run("count")', 'student.run("count", next(CODES))'
    )
    probe = "import os\ndef count(module, code):\n    os._exit(code)\n"
    first, second = judged(RIGHT, suite, probe).result.tests
    assert "exit code 1" in first.message
    assert "exit code 2" in second.message


DRAWS = '''
import random

def drawn(student):
    return student.once("drawn", lambda: [random.random(), student.run("draw")])

def test_first(student):
    """The first part"""
    random.random()
    if ASKS:
        drawn(student)

def test_second(student):
    """The second part"""
    random.random()
    student.run("tell", drawn(student), random.random())
'''


def test_draws_in_once_do_not_depend_on_the_test_that_asks_first(judged: JudgeSource) -> None:
    # A known wrong answer is run in a single test, and is recognized by the values that the test sees.
    probe = (
        "import random\n"
        "def draw(module):\n    return random.random()\n"
        "def tell(module, *drawn):\n    raise ValueError(*drawn, random.random())\n"
    )
    texts = [
        judged(RIGHT, DRAWS.replace("ASKS", asks), probe).result.tests[1].message
        for asks in ("True", "False")
    ]
    assert texts[0] == texts[1]
    assert len(set(re.findall(r"0\.\d+", texts[0]))) == 4
