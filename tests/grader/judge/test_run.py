"""Each test ends with its own outcome, whatever a submission does, and the other tests still run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.course.manifest import Course
from grader.errors import JudgeError
from grader.judge.assignment import AuthorOptions, GradingOptions, Judgment
from grader.judge.process import Judge, judge_source, judges
from grader.results import Cause, Outcome, Place, Status, TestResult, Visibility

JudgeSource = Callable[..., Judgment]


# The outcome of the first test must not cost the second one points.
SUITE = '''
def test_first(student):
    """The first part"""
    assert_equal(student.function("first")(), 1)

def test_second(student):
    """The second part"""
    assert_equal(student.function("second")(), 2)
'''
SECOND = "\ndef second():\n    return 2\n"


@pytest.mark.parametrize(
    ("body", "outcome", "words"),
    [
        ("return 1", Outcome.PASSED, ""),
        ("return 3", Outcome.FAILED, "3"),
        ("return None", Outcome.FAILED, "None"),
        ("raise NotImplementedError('first: return one')", Outcome.NOT_IMPLEMENTED, "return one"),
        ("raise ValueError('no')", Outcome.ERROR, "ValueError: no (line 2, in first)"),
        ("import sys; sys.exit(0)", Outcome.ERROR, "SystemExit"),
        ("raise KeyboardInterrupt", Outcome.ERROR, "KeyboardInterrupt"),
        ("import os; os._exit(0)", Outcome.ERROR, "(exit code 0) at line 2, in first: a module"),
        ("import os; os.abort()", Outcome.ERROR, "(SIGABRT) at line 2, in first: "),
        ("input('name? ')", Outcome.ERROR, "input() waits for a person at the keyboard"),
        ("breakpoint()", Outcome.ERROR, "breakpoint() waits for a person at the keyboard"),
        (
            "import pdb\n    pdb.set_trace()\n    return 1",
            Outcome.ERROR,
            "pdb.set_trace() waits for a person at the keyboard, which a judged program does not",
        ),
        (
            "import urllib.request; urllib.request.urlopen('http://localhost')",
            Outcome.ERROR,
            "There is no network where your code is judged",
        ),
        (
            "open('/etc/lab-bench-canary', 'w')",
            Outcome.ERROR,
            "can read and write files only in its working folder",
        ),
        ("import ctypes; ctypes.string_at(0)", Outcome.ERROR, "SIGSEGV"),
        (
            "import torch; return torch.ones(1, device='meta').tolist()",
            Outcome.ERROR,
            "raised NotImplementedError: Cannot copy out of meta tensor",
        ),
        (
            "value = 1; return valeu",
            Outcome.ERROR,
            "name 'valeu' is not defined (line 2, in first). Did you mean 'value'?",
        ),
        (
            "tokens = 1; return token",
            Outcome.ERROR,
            "(line 2, in first). Did you mean 'tokens', or is `import token` missing?",
        ),
        ("return math.pi", Outcome.ERROR, "(line 2, in first). Is `import math` missing?"),
        ("return first()", Outcome.ERROR, "It recursed deeper than Python's limit, 1,000 calls"),
        ("return bytearray(2**40)", Outcome.ERROR, "more memory"),
        ("import torch; return torch.zeros(2**40)", Outcome.ERROR, "more memory"),
        ("while True: pass", Outcome.TIMEOUT, "within 0.5 s"),
        (
            "import time; time.sleep(60)",
            Outcome.TIMEOUT,
            "0.5 s. It was still running line 2, in first",
        ),
        ("return [0] * 10_000_000", Outcome.FAILED, "list of 10000000 items"),
        ("a = []; a.append(a); return a", Outcome.FAILED, "list"),
        ("return object()", Outcome.FAILED, "object"),
        ("return 10**5000", Outcome.FAILED, "int"),
        ("return '\\ud800'", Outcome.FAILED, ""),
    ],
)
def test_each_outcome_costs_only_its_own_test(
    judged: JudgeSource, body: str, outcome: Outcome, words: str
) -> None:
    seconds = 2 if outcome is Outcome.TIMEOUT else 8
    result = judged(f"def first():\n    {body}\n{SECOND}", SUITE, seconds=seconds).result
    first, second = result.tests
    assert (first.outcome, second.outcome) == (outcome, Outcome.PASSED)
    assert words in first.message
    assert result.score == (10 if outcome is Outcome.PASSED else 5)


LOOPS = """
import os
import signal
import sys

def endless():
    {before}
    while True:
        {inside}

def first():
    print("begun")
    return endless()
"""


@pytest.mark.parametrize(
    ("before", "inside", "places"),
    [
        ("pass", "pass", {8, 9}),
        ("pass", "print('x' * 1000)", {8, 9}),
        ("pass", "os.write(2, b'y' * 5000)", {8, 9}),
        ("sys.stderr.close()", "os.getpid()", {8, 9}),
        # A student may hide the line, and then gets a verdict without it.
        ("signal.signal(signal.SIGUSR1, signal.SIG_IGN)", "pass", {None}),
        ("os.close(2)", "pass", {None}),
    ],
)
def test_an_endless_loop_is_reported_with_its_line(
    judged: JudgeSource, before: str, inside: str, places: set[int | None]
) -> None:
    source = LOOPS.format(before=before, inside=inside) + SECOND
    judgment = judged(source, SUITE, seconds=2)
    first, second = judgment.result.tests
    assert (first.outcome, second.outcome) == (Outcome.TIMEOUT, Outcome.PASSED)
    assert (first.place.line if first.place else None) in places
    assert ("in endless" in first.message) == (places != {None})
    # The stack is only for the message, and is not shown as output.
    assert "begun" in judgment.result.output
    assert "most recent call first" not in judgment.result.output


def test_a_made_up_stack_only_changes_the_line_shown(judged: JudgeSource) -> None:
    forged = 'Stack (most recent call first):\n  File "one/task.py", line 2 in a\x1b[31m\n'
    source = LOOPS.format(
        before="signal.signal(signal.SIGUSR1, signal.SIG_IGN)",
        inside=f"os.write(2, {forged.encode()!r})",
    )
    first, second = judged(source + SECOND, SUITE, seconds=2).result.tests
    assert (first.outcome, second.outcome) == (Outcome.TIMEOUT, Outcome.PASSED)
    # There is no function of that name.
    assert "still running line 2, in <module>." in first.message


def test_a_file_can_be_copied_with_its_mode(judged: JudgeSource) -> None:
    body = (
        "import os, pathlib, shutil; a = pathlib.Path('a').absolute(); a.write_text('1'); "
        "shutil.copy(a, 'b'); shutil.copy2(a, 'c'); os.chmod('b', 0o600); "
        "return int(pathlib.Path('c').read_text())"
    )
    first, _ = judged(f"def first():\n    {body}\n{SECOND}", SUITE).result.tests
    assert (first.outcome, first.message) == (Outcome.PASSED, "")


@pytest.mark.parametrize("call", ['student.function("first")()', 'student.run("first")'])
def test_a_missing_name_is_reported(judged: JudgeSource, call: str) -> None:
    probe = "def first(module):\n    return module.first()\n"
    suite = SUITE.replace('student.function("first")()', call)
    first, second = judged("def second():\n    return 2\n", suite, probe).result.tests
    message = "one/task.py defines no 'first'; keep the names of the stub."
    assert (first.outcome, first.message) == (Outcome.ERROR, message)
    assert second.outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("a, c", "first has no parameter 'b', which the exercise passes by name;"),
        ("a", "first has no parameter 'b', which the exercise passes by name;"),
        ("a, b, c", "first does not accept the exercise's arguments (first() missing 1 required"),
        ("b", "first does not accept the exercise's arguments (first() got multiple values"),
    ],
)
@pytest.mark.parametrize("call", ['student.function("first")(1, b=2)', 'student.run("first")'])
def test_changed_parameters_are_reported(
    judged: JudgeSource, call: str, parameters: str, message: str
) -> None:
    probe = "def first(module):\n    return module.first(1, b=2)\n"
    suite = SUITE.replace('student.function("first")()', call)
    source = f"def first({parameters}):\n    return 1\n\ndef second():\n    return 2\n"
    first, second = judged(source, suite, probe).result.tests
    assert first.message.startswith(message)
    assert first.message.endswith("; keep the parameters of the stub.")
    assert (first.outcome, second.outcome) == (Outcome.ERROR, Outcome.PASSED)
    # A wrong call in the student's own code is reported with its line.
    own = f"def help({parameters}):\n    return 1\n\ndef first(*a, **k):\n    return help(1, b=2)\n"
    assert "(line 5, in first)" in judged(own, suite, probe).result.tests[0].message


def test_a_check_can_place_a_mistake_in_another_function(judged: JudgeSource) -> None:
    suite = SUITE.replace(
        'student.function("first")()', 'entry({}, "a", told="No a.", place="second")'
    )
    suite = f"from grader.judge.checks import entry\n{suite}"
    first, _ = judged(
        "def first():\n    return 1\n\ndef second():\n    return 2\n", suite
    ).result.tests
    assert (first.message, first.place) == ("No a.", Place("one/task.py", 4, "second"))


def test_an_error_is_placed_in_the_students_code_and_not_in_given_code(
    judge: Judge, write_course: Callable[..., Course], tmp_path: Path
) -> None:
    given = "def launch(worker):\n    return worker[0]\n\n"
    part = "def first():\n    {}\n"
    course = write_course(tmp_path, SUITE)
    stub = tmp_path / "exercises/one/task.py"
    stub.write_text(given + part.format("raise NotImplementedError('first')"), encoding="utf-8")

    def place(source: str) -> tuple[int, str]:
        exercise, options = course.exercises[0], GradingOptions(suites=(Visibility.HIDDEN,))
        test = judge_source(judge, course, exercise, source.encode(), options).result.tests[0]
        assert test.place is not None
        return test.place.line, test.place.function

    call = part.format("return launch([])")
    assert place(given + call + SECOND) == (5, "first")
    # Given code that was changed counts as the student's.
    assert place(given.replace("[0]", "[1]") + call + SECOND) == (2, "launch")


CAUSES = """
import torch
from grader.judge.checks import laws

def test_value(student):
    "The value"
    value = student.function("value")()
    assert not laws.same(value, torch.full((2,), 2.0)), "It is twice as large."
    assert_close(value, torch.ones(2))
"""


@pytest.mark.parametrize(
    ("body", "cause", "has_hint"),
    [
        ("return torch.full((2,), 2.0)", Cause.MISTAKE, True),
        ("return torch.full((2,), 5.0)", Cause.VALUES, True),
        ("return torch.ones(3)", Cause.SHAPE, True),
        ("return torch.ones(2).double()", Cause.TYPE, False),
        ("return None", Cause.NOTHING, False),
        ("raise ValueError('no')", Cause.RAISE, True),
        ("return torch.ones(2) + torch.ones(3)", Cause.OTHER, True),
    ],
)
def test_the_cause_decides_whether_the_hint_is_shown(
    judged: JudgeSource, body: str, cause: Cause, has_hint: bool
) -> None:
    suite = CAUSES.replace("def test", "import pytest\n@pytest.mark.hint('Count.')\ndef test")
    (test,) = judged(f"import torch\ndef value():\n    {body}\n", suite).result.tests
    assert (test.cause, bool(test.hint)) == (cause, has_hint)


@pytest.mark.parametrize("what", ["x.grad", "the gradient of x", "the list of gradients"])
def test_a_wrong_gradient_is_recognized_by_its_name(judged: JudgeSource, what: str) -> None:
    check = f'assert_close(student.function("value")(), torch.ones(2), what="{what}")'
    suite = f"import torch\ndef test_value(student):\n    '''It'''\n    {check}\n"
    for body in ("torch.zeros(2)", "torch.zeros(3)", "None"):
        source = f"import torch\ndef value():\n    return {body}\n"
        (test,) = judged(source, suite).result.tests
        assert test.cause is Cause.GRADIENT
    (test,) = judged(source, suite.replace(what, "gradient_norm(x)")).result.tests
    assert test.cause is Cause.NOTHING


@pytest.mark.parametrize(
    ("source", "status", "words"),
    [
        ("import nowhere_to_be_found\n", Status.ERROR, "No module named 'nowhere_to_be_found'"),
        ("import helpers\n", Status.ERROR, "files beside it are not there"),
        (
            "def f(n):\n    return 1 / n\n\nf(0)\n",
            Status.ERROR,
            "(line 2, in f). Line 4 runs it when the file is imported",
        ),
        ("1 / 0\n", Status.ERROR, "ZeroDivisionError: division by zero (line 1, in <module>)"),
        ("import sys; sys.exit()\n", Status.ERROR, "SystemExit"),
        ("import os; os._exit(3)\n", Status.ERROR, "exit code 3"),
        ("raise NotImplementedError('later')\n", Status.ERROR, "later"),
        ("while True: pass\n", Status.TIMEOUT, "no answer"),
    ],
)
def test_a_module_that_does_not_load_has_one_message(
    judged: JudgeSource, source: str, status: Status, words: str
) -> None:
    seconds = 2 if status is Status.TIMEOUT else 8
    result = judged(source + SECOND, SUITE, seconds=seconds).result
    assert (result.status, result.score) == (status, 0)
    assert result.message.startswith("one/task.py cannot be imported.")
    assert words in result.message


def test_a_failed_prerequisite_skips_its_dependants(judged: JudgeSource) -> None:
    suite = (
        SUITE
        + '''
@pytest.mark.requires("test_first")
def test_third(student):
    """The third part"""
    student.function("third")()

@pytest.mark.requires("test_third")
def test_fourth(student):
    """The fourth part"""
'''
    )
    result = judged(f"def first():\n    return 0\n{SECOND}", suite).result
    outcomes = [test.outcome for test in result.tests]
    assert outcomes == [Outcome.FAILED, Outcome.PASSED, Outcome.SKIPPED, Outcome.SKIPPED]
    assert result.tests[2].message == 'Not judged yet: first correct "The first part".'


def test_the_time_of_an_exercise_is_limited(judged: JudgeSource) -> None:
    suite = "\n".join(
        f'def test_{n}(student):\n    """Part {n}"""\n    student.function("loop")()\n'
        for n in range(10)
    )
    result = judged("import time\ndef loop():\n    time.sleep(60)\n", suite, seconds=2).result
    assert {test.outcome for test in result.tests} == {Outcome.TIMEOUT}
    assert "is used up" in result.tests[-1].message
    # Each test may use a quarter of the 2 s.
    assert "within 0.5 s" in result.tests[0].message


def test_mutants_stop_at_the_first_failure_and_within_their_own_time(
    judge: Judge, write_course: Callable[..., Course], tmp_path: Path
) -> None:
    course = write_course(tmp_path, SUITE)

    def tests(source: str, author: AuthorOptions) -> tuple[TestResult, ...]:
        (exercise,) = course.exercises
        code, options = source.encode(), GradingOptions()
        return judge_source(judge, course, exercise, code, options, author=author).result.tests

    def outcomes(source: str, author: AuthorOptions) -> list[Outcome]:
        return [test.outcome for test in tests(source, author)]

    mutant = AuthorOptions(seconds=2, stop_at_first_failure=True)
    first, second = tests(f"def first():\n    while True: pass\n{SECOND}", mutant)
    assert (first.outcome, second.outcome) == (Outcome.TIMEOUT, Outcome.SKIPPED)
    # This is a quarter of the mutant's time, not of the exercise's.
    assert "within 0.5 s" in first.message
    wrong = f"def first():\n    return 2\n{SECOND}"
    assert outcomes(wrong, mutant) == [Outcome.FAILED, Outcome.SKIPPED]
    right = wrong.replace("return 2", "return 1", 1)
    assert outcomes(right, mutant) == [Outcome.PASSED, Outcome.PASSED]
    # Neither option carries over to the next assignment of the same judge.
    assert outcomes(wrong, AuthorOptions()) == [Outcome.FAILED, Outcome.PASSED]


def test_points_weight_tests_and_places_are_shown(judged: JudgeSource) -> None:
    suite = '''
@pytest.mark.points(3)
@pytest.mark.place("first")
@pytest.mark.hint("Return one.")
def test_first(student):
    """The first part. More words."""
    assert_equal(student.function("first")(), 1)

def test_second(student):
    """The second part"""
    assert_equal(student.function("second")(), 2)
'''
    result = judged(f"\n\ndef first():\n    return 0\n{SECOND}", suite).result
    first, _ = result.tests
    assert (result.score, first.max_score, first.hint) == (2.5, 3, "Return one.")
    assert first.place is not None
    assert (first.place.file, first.place.line) == ("one/task.py", 3)
    assert first.title == "The first part. More words"


def test_a_syntax_error_is_not_a_fault_of_the_judge(judged: JudgeSource) -> None:
    suite = '''
def test_first(student):
    """The first part"""
'''
    result = judged("def first(:\n", suite).result
    assert (result.score, result.tests[0].outcome) == (0, Outcome.ERROR)
    assert "one/task.py is not valid Python: line 1: " in result.message


def test_a_fault_of_a_suite_is_an_error_of_the_judge(judged: JudgeSource) -> None:
    suite = '''
def test_first(student):
    """The first part"""
    student.function("first")()["key"]
'''
    with pytest.raises(JudgeError, match=r"at fault in test_first: TypeError.*test_task.py, line"):
        judged("def first():\n    return 1\n", suite)


def test_the_environment_does_not_change_the_verdict(
    write_course: Callable[..., Course], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = '''
def test_first(student):
    """The first part"""
    assert student.function("first")() == 2, "one is not two"
'''
    course = write_course(tmp_path, suite)
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    with judges() as (judge,):
        judged = judge_source(
            judge,
            course,
            course.exercises[0],
            b"def first():\n    return 1\n",
            GradingOptions(suites=(Visibility.HIDDEN,)),
        )
    (test,) = judged.result.tests
    assert (test.outcome, test.message) == (Outcome.FAILED, "one is not two")


@pytest.mark.skipif(sys.platform != "linux", reason="the scheduling policy needs Linux")
def test_a_sandbox_runs_with_batch_priority(judged: JudgeSource) -> None:
    first = "return int(os.sched_getscheduler(0) == os.SCHED_BATCH)"
    source = f"import os\ndef first():\n    {first}\n{SECOND}"
    assert judged(source, SUITE).result.tests[0].outcome is Outcome.PASSED


def test_a_missing_probe_is_named(judged: JudgeSource) -> None:
    suite = '\ndef test_first(student):\n    """The first part"""\n    student.run("count")\n'
    with pytest.raises(JudgeError, match=r"The suite runs count of probe_task\.py"):
        judged("def first():\n    return 1\n", suite)


def test_an_author_cannot_skip_a_test_silently(judged: JudgeSource) -> None:
    suite = '''
def test_first(student):
    """The first part"""
    pytest.skip("not today")
'''
    with pytest.raises(JudgeError, match="test_first"):
        judged("def first():\n    return 1\n", suite)


def test_output_is_kept_limited_and_without_colors(judged: JudgeSource) -> None:
    source = "import os\ndef first():\n    print('hello \\x1b[31m')\n    os.write(2, b'raw')\n    return 1"
    result = judged(source + SECOND, SUITE).result
    assert result.output == "hello \nraw", "colors are removed"
    flood = "def first():\n    for n in range(10**4): print('x' * 100)\n    return 1" + SECOND
    result = judged(flood, SUITE).result
    assert result.tests[0].outcome is Outcome.PASSED
    assert len(result.output) <= 8_000


def test_output_is_shown_for_each_test(judged: JudgeSource) -> None:
    source = (
        "print('import')\n\ndef first():\n    print('one', 1)\n    return 1\n\n"
        "def second():\n    print('x' * 5000)\n    return 3\n"
    )
    result = judged(source, SUITE).result
    first, second = result.tests
    assert first.printed == "one 1"
    assert second.printed.startswith("xxx")
    assert len(second.printed) <= 2_000
    assert result.output.startswith("import\none 1\nxxx")


def test_a_judge_continues_after_a_fault(judged: JudgeSource) -> None:
    with pytest.raises(JudgeError):
        judged("def first():\n    return 1\n", "def test_first(student):\n    '''T'''\n    1 / 0\n")
    assert judged(f"def first():\n    return 1\n{SECOND}", SUITE).result.score == 10


def test_equal_seeds_give_equal_inputs(judged: JudgeSource) -> None:
    suite = '''
def test_first(student):
    """The first part"""
    raise AssertionError(f"{torch.randn(1).item()} {student.function('first')()}")
'''
    source = "import torch\ndef first():\n    return torch.randn(1).item()\n"
    messages = [judged(source, suite, seed=seed).result.tests[0].message for seed in (1, 1, 2)]
    assert messages[0] == messages[1] != messages[2]


def test_the_sandbox_cannot_reproduce_the_draws_of_the_judge(judged: JudgeSource) -> None:
    suite = """
import random

import torch

def test_first(student):
    \"\"\"The first part\"\"\"
    seeds = [torch.initial_seed(), random.random(), torch.rand(()).item()]
    told = list(student.function("first")())
    assert not set(seeds) & set(told), "The same is drawn in both processes."
"""
    source = """
import random

import torch

def first():
    seed = torch.initial_seed()
    drawn = random.random(), torch.rand(()).item()
    random.seed(seed)
    return seed, *drawn, random.random()
"""
    result = judged(source, suite).result
    assert [test.outcome for test in result.tests] == [Outcome.PASSED], result.tests[0].message


def test_modes_do_not_reach_the_next_test(judged: JudgeSource) -> None:
    suite = '''
def test_first(student):
    """The first part"""
    student.function("leave")()

def test_second(student):
    """The second part"""
    raise AssertionError(repr(student.function("modes")()))
'''
    source = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode
torch.set_default_dtype(torch.float64)
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args, kwargs):
        return func(*args, **kwargs)
def leave():
    global guard
    Mode().__enter__()
    guard = torch.inference_mode()
    guard.__enter__()
    torch.set_grad_enabled(False)
    torch.set_anomaly_enabled(True)
    torch.set_default_dtype(torch.float16)
    torch.set_autocast_enabled("cpu", True)
    torch.nn.modules.module.register_module_forward_hook(lambda *arguments: 1 / 0)
def modes():
    torch.nn.Identity()(1)
    x = torch.ones(1, requires_grad=True) * 2
    mode, left = torch.is_autocast_enabled("cpu"), torch._C._len_torch_dispatch_stack()
    return [x.requires_grad, x.is_inference(), torch.is_anomaly_enabled(), mode, left, str(x.dtype)]
"""
    first, second = judged(source, suite).result.tests
    assert first.outcome is Outcome.PASSED
    # The default dtype is the one that the module itself set while loading.
    assert "[True, False, False, False, 0, 'torch.float64']" in second.message


@pytest.mark.parametrize("end", ["os._exit(0)", "os.write(3, b'x' * 10**6) or os._exit(0)"])
def test_dying_late_in_every_test_uses_up_the_time(judged: JudgeSource, end: str) -> None:
    tests = "".join(
        f'\ndef test_{n}(student):\n    """T{n}"""\n    student.function("first")()\n'
        for n in range(9)
    )
    source = f"import os, time\ndef first():\n    time.sleep(0.3)\n    {end}\n"
    outcomes = [test.outcome for test in judged(source, tests, seconds=2).result.tests]
    # The exercise has 2 s, so the last tests do not run.
    assert outcomes[0] is Outcome.ERROR
    assert outcomes[-2:] == [Outcome.TIMEOUT, Outcome.TIMEOUT]


_HALF = "\\ud800"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f"raise ValueError('half {_HALF} of a pair')", f"ValueError: half {_HALF} of a pair"),
        (f"raise KeyError('{_HALF}')", f"KeyError: '{_HALF}'"),
        (f"print('half {_HALF}'); return 3", "3"),
        (f"return '{_HALF}'", "a string"),
        (f"return {{'{_HALF}': 1}}", "keys"),
        (
            f"return type(first)((lambda: 1 / 0).__code__.replace(co_name='{_HALF}'), {{}})()",
            "ZeroDivisionError",
        ),
        (
            f"from collections import namedtuple as n; t = n('T', 'a'); t._fields = ('{_HALF}',); return t(1)",
            "T",
        ),
    ],
)
def test_a_lone_surrogate_is_shown_escaped(judged: JudgeSource, body: str, words: str) -> None:
    result = judged(f"def first():\n    {body}\n{SECOND}", SUITE).result
    first, second = result.tests
    assert words in first.message
    assert second.outcome is Outcome.PASSED
    if "print" in body:
        assert result.output == f"half {_HALF}\n"


def test_a_lone_surrogate_in_names_does_not_end_the_sandbox(judged: JudgeSource) -> None:
    source = f"""
import torch

class Layer(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        if name:
            self.register_parameter("{_HALF}", torch.nn.Parameter(torch.zeros(())))
    def forward(self, x):
        self.register_parameter("p{_HALF}", torch.nn.Parameter(torch.zeros(())))
        return x

def change(**named):
    named["x"].mul_(2)
change.__signature__ = __import__("inspect").signature(change).replace(parameters=[])
"""
    suite = """
def test_built(student):
    '''A'''
    student.module("Layer", True)

def test_forward(student):
    '''B'''
    student.module("Layer", False)(torch.ones(1))

def test_changed(student):
    '''C'''
    student.function("change")(x=torch.ones(1))
    assert student.mutated == ["x"]
"""
    built, forward, changed = judged(source, suite).result.tests
    assert "give each one a plain name" in built.message
    assert (forward.message, changed.message) == ("", "")


# Raises for anything but a nested dict with the drawn key.
_TRUSTING = '''
def test_first(student):
    """The first part"""
    assert_equal(student.function("second")(), 2)

@pytest.mark.requires("test_first")
def test_trusting(student):
    """Trusts what it gets"""
    drawn = torch.randint(1000, ()).item()
    assert student.function("first")(drawn)["key"][drawn] == 1

def test_last(student):
    """Comes after"""
    assert_equal(student.function("second")(), 2)
'''
_SOLUTION = f"def first(drawn):\n    return {{'key': {{drawn: 1}}}}\n{SECOND}"


@pytest.mark.parametrize(
    "answer",
    ["1", "None", "{}", "{'key': []}", "{'key': {drawn - 1: 1}}", "__import__('torch').ones(2)"],
)
def test_an_answer_that_makes_the_suite_raise_is_an_error(
    judged: JudgeSource, tmp_path: Path, answer: str
) -> None:
    _write_solution(tmp_path, _SOLUTION)
    source = f"print('mine')\ndef first(drawn):\n    return {answer}\n{SECOND}"
    result = judged(source, _TRUSTING).result
    outcomes = [test.outcome for test in result.tests]
    assert outcomes == [Outcome.PASSED, Outcome.ERROR, Outcome.PASSED]
    assert "gave an answer that cannot be read" in result.tests[1].message
    # There is no output of the solution, which ran elsewhere.
    assert set(result.output.split()) == {"mine"}


def test_a_suite_that_also_raises_for_its_solution_is_at_fault(
    judged: JudgeSource, tmp_path: Path
) -> None:
    _write_solution(tmp_path, f"def first(drawn):\n    return 1\n{SECOND}")
    with pytest.raises(JudgeError, match="at fault in test_trusting"):
        judged(f"def first(drawn):\n    return None\n{SECOND}", _TRUSTING)


def test_the_submission_cannot_find_the_solution(judged: JudgeSource, tmp_path: Path) -> None:
    _write_solution(tmp_path, f"{_SOLUTION}\nSECRET = True\n")
    source = """
import pathlib, sys
def look():
    files = [path.read_bytes() for path in pathlib.Path().rglob("*.py")]
    found = any(b"SECRET = " + b"True" in data for data in files)
    print("seen" if found or "SECRET" in vars(sys.modules["task"]) else "unseen")
def first(drawn):
    look()
def second():
    look()
    return 2
"""
    result = judged(source, _TRUSTING).result
    assert result.tests[1].outcome is Outcome.ERROR
    assert result.output.split() == ["unseen"] * 3


def _write_solution(root: Path, source: str) -> None:
    path = root / "solutions" / "one" / "task.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)
