"""A bug in the course costs no points, and no answer can pretend to have hit one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grader.errors import JudgeError
from grader.judge.assignment import Judgment
from grader.judge.probe import read_probe
from grader.results import Outcome

JudgeSource = Callable[..., Judgment]

SUITE = '''
@pytest.mark.place("first")
def test_first(student):
    """The first part"""
    assert_equal(student.run("story", 2), 2)

def test_second(student):
    """The second part"""
    assert_equal(student.function("second")(), 2)
'''
SOLUTION = "def first(n):\n    return [n]\ndef second():\n    return 2\n"
PROBE = "def story(module, n):\n    return len(module.first(n)) * n\n"
WORK = "def second():\n    return 2\n"


def _write_solution(root: Path, source: str = SOLUTION) -> None:
    path = root / "solutions" / "one" / "task.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)


@pytest.mark.parametrize(
    ("suite", "probe", "message"),
    [
        # These faults are found in the files of the course without a solution.
        (
            "storry",
            PROBE,
            r"test_task.py, line \d+: The suite runs storry of probe_task.py.*'story'",
        ),
        (
            "story",
            PROBE.replace("* n", "* factor"),
            "probe_task.py, line 2: the name 'factor' is not",
        ),
        ("story", PROBE + "def (\n", r"probe_task.py, line 3, is not valid Python: "),
        ("story", "", "The suite runs story of probe_task.py, and no such file is beside it"),
    ],
)
@pytest.mark.parametrize("has_solution", [True, False])
def test_faults_in_the_files_of_a_course_are_found_without_a_solution(
    judged: JudgeSource, tmp_path: Path, suite: str, probe: str, message: str, has_solution: bool
) -> None:
    if has_solution:
        _write_solution(tmp_path)
    with pytest.raises(
        JudgeError, match=f"The suite of 'task' is at fault in test_first.*{message}"
    ):
        judged(SOLUTION, SUITE.replace('"story"', f'"{suite}"'), probe)


OBSERVED = '''
from grader.judge.checks import laws

def test_first(student):
    """The first part"""
    seen = laws.observe(student, student.probe("story"), 2)
    assert_equal(seen.checked().value, 2)
'''
RAISING = """
def test_first(student):
    '''The first part'''
    with must_raise(ValueError):
        student.run("story", 2)
"""
CALLED_BACK = """
class Spy:
    def __len__(self):
        return self.lenght
def story(module, n):
    return len(module.first(Spy())) * n
"""


@pytest.mark.parametrize(
    "suite", [SUITE, OBSERVED, RAISING], ids=["call", "observed", "must_raise"]
)
@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (PROBE.replace("* n", "* n.factor"), "probe_task.py, line 2: AttributeError: 'int' object"),
        (PROBE.replace("first", "frist"), "probe_task.py, line 2: AttributeError: module 'task'"),
        (f"import numpie\n{PROBE}", "probe_task.py, line 1: ModuleNotFoundError"),
        (CALLED_BACK, "probe_task.py, line 4: AttributeError: 'Spy' object has no attribute"),
    ],
    ids=["argument", "name", "import", "callback"],
)
def test_a_probe_that_also_raises_for_the_solution_is_at_fault(
    judged: JudgeSource, tmp_path: Path, suite: str, probe: str, message: str
) -> None:
    _write_solution(tmp_path, SOLUTION.replace("[n]", "[len(n)]" if "Spy" in probe else "[n]"))
    source = SOLUTION.replace("[n]", "[len(n)]" if "Spy" in probe else "[n]")
    with pytest.raises(JudgeError) as raised:
        judged(source, suite, probe)
    assert "The suite of 'task' is at fault in test_first: " in str(raised.value)
    assert message.replace("module 'task'", "one/task.py") in str(raised.value)
    assert "costs it no points" in str(raised.value)


def test_a_suite_that_makes_the_solution_raise_is_at_fault(
    judged: JudgeSource, tmp_path: Path
) -> None:
    _write_solution(tmp_path)
    suite = SUITE.replace('student.run("story", 2)', 'student.function("first")()')
    message = r"at fault in test_first: the course's own solution: TypeError: first does not accept"
    with pytest.raises(JudgeError, match=message):
        judged(SOLUTION, suite)


@pytest.mark.parametrize(
    "answer",
    [
        # The probe's own line raises, because of its argument.
        "def first(n):\n    return None\n",
        # This answer pretends to be a bug of the author.
        """
class Odd:
    def __len__(self):
        raise NameError("name 'factor' is not defined")
def first(n):
    return Odd()
""",
        """
def first(n):
    code = compile("def lie(*_):\\n    raise NameError(\\"name 'len' is not defined\\")", "<probe>", "exec")
    exec(code, names := {"__name__": "probe_task"})
    names["lie"]()
""",
    ],
    ids=["none", "odd", "forged"],
)
@pytest.mark.parametrize("has_solution", [True, False])
def test_no_answer_can_make_a_test_unjudged(
    judged: JudgeSource, tmp_path: Path, answer: str, has_solution: bool
) -> None:
    if has_solution:
        _write_solution(tmp_path)
    first, second = judged(answer + WORK, SUITE, PROBE).result.tests
    assert (first.outcome, second.outcome) == (Outcome.ERROR, Outcome.PASSED)
    of_probe = "Your code returned None (is a return missing?): the test's own code raised "
    assert first.message.startswith(
        of_probe if "None" in answer else "Your code raised NameError: "
    )


def test_the_solution_is_run_with_the_same_seed(judged: JudgeSource, tmp_path: Path) -> None:
    """A probe that fails only for some draws is at fault under exactly those seeds, for every answer."""
    suite = f"import random\n{SUITE}".replace('"story", 2', '"story", random.random()')
    probe = "def story(module, n):\n    return [2][n < 0.5]\n"
    _write_solution(tmp_path)
    ends: set[object] = set()
    for seed in range(6):
        try:
            first, _ = judged(SOLUTION, suite, probe, seed=seed).result.tests
            ends.add(first.outcome)
        except JudgeError as error:
            ends.add("line 2: IndexError: list index out of range" in str(error))
    assert ends == {Outcome.PASSED, True}


def test_names_defined_in_any_way_count_as_defined(tmp_path: Path) -> None:
    path = tmp_path / "probe_task.py"

    def undefined(more: str = "") -> list[str]:
        path.write_text(path.read_text() + more)
        complaints = []
        for name in ("Y", "t", "os", "later", "a", "value", "error", "rest", "__name__", "missing"):
            try:
                read_probe(path, "make").refuse_undefined(f"name {name!r} is not defined")
            except JudgeError as error:
                complaints.append(str(error))
        return complaints

    path.write_text(
        "from __future__ import annotations\n"
        "import os.path, typing as t\n"
        "if t.TYPE_CHECKING:\n    from x import Y\n"
        "def make(module: Y, *_):\n"
        "    global later\n"
        "    later = [os for os in '']\n"
        "    class Inner:\n        a = 1\n        b = a\n"
        "    def inner():\n        nonlocal_ = Inner\n        return nonlocal_, later, __name__, os\n"
        "    try:\n        pass\n    except Exception as error:\n        raise error\n"
        "    return inner, (lambda value: value), {k: v for k, v in {}.items()}\n"
        "match 1:\n    case {'a': found, **rest}:\n        found, rest\n"
    )
    assert undefined() == []
    for name in ("make", "later", "found", "Y"):
        read_probe(path, "make").require(name)
    with pytest.raises(JudgeError, match=r"runs mkae of probe_task.py.*Did you mean 'make'"):
        read_probe(path, "make").require("mkae")
    assert undefined("def use(module):\n    return missing\n") == [
        "probe_task.py, line 23: the name 'missing' is not defined."
    ]
    assert undefined("from os import *\n") == []
    read_probe(path, "make").require("anything")
