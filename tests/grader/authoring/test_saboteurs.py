"""A saboteur of each law fails it, the untouched solution passes, and a law that cannot fail is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.authoring.saboteurs import SabotagedSolution, sabotaged
from grader.authoring.verify import ExerciseProof, verify
from grader.course import suite
from grader.course.manifest import load_course
from grader.judge.assignment import GradingOptions, Judgment
from grader.judge.process import Judge, judge_source
from grader.results import Outcome, Visibility

from ..conftest import MANIFEST
from ..judge.test_laws import EXAMPLES, PROBE, RIGHT


def write(course: Path, suite: str, solution: str, wrong: str = "", *, preload: str) -> None:
    manifest = MANIFEST.replace("seconds = 8", "seconds = 120").replace('["torch"]', preload)
    for name, text in {
        "exercises/course.toml": manifest,
        "exercises/one/task.py": "raise NotImplementedError\n",
        "solutions/one/task.py": solution,
        "tests/hidden/one/test_task.py": f"from grader.judge.checks import laws\n{suite}",
        "tests/hidden/one/probe_task.py": PROBE,
        "tests/wrong/one/task.toml": wrong,
    }.items():
        if text:
            (course / name).parent.mkdir(parents=True, exist_ok=True)
            (course / name).write_text(text, encoding="utf-8")


# --- each law and its saboteurs ---------------------------------------------------------------------


def judged_saboteurs(judge: Judge, folder: Path) -> list[tuple[SabotagedSolution, Judgment]]:
    """The saboteurs for the laws that the hidden suite calls, each judged; the solution passes."""
    course = load_course(folder)
    exercise = course.exercises[0]
    solution = course.solution(exercise).read_bytes()
    options = GradingOptions(suites=(Visibility.HIDDEN,), record=True)
    judgment = judge_source(judge, course, exercise, solution, options)
    assert [test.outcome for test in judgment.result.tests] == [Outcome.PASSED]
    return [
        (
            answer,
            judge_source(
                judge,
                course,
                exercise,
                answer.source,
                GradingOptions(only=(answer.visibility, answer.test), record=True),
            ),
        )
        for answer in sabotaged(
            solution, judgment.laws, suite.tests_of(course, exercise, options.suites)
        )
    ]


@pytest.mark.parametrize("law", EXAMPLES)
def test_every_saboteur_of_a_law_is_caught(judge: Judge, tmp_path: Path, law: str) -> None:
    suite = f"import torch\ndef test_law(student):\n    '''The law'''\n    {EXAMPLES[law]}\n"
    write(tmp_path, suite, RIGHT, preload='["torch"]')
    judged = judged_saboteurs(judge, tmp_path)
    at_work = [(answer, judgment) for answer, judgment in judged if answer.was_at_work(judgment)]
    assert law in {answer.law for answer, _ in at_work}
    for answer, judgment in at_work:
        assert answer.is_caught(judgment), (answer.mistake, judgment.result.tests[0].message)


# --- in the proof of an exercise --------------------------------------------------------------------

SOLUTION = """
def rates(steps):
    if steps < 2:
        raise ValueError(f"steps is {steps}")
    return list(range(steps))
"""
LAW = 'laws.check_errors(student, "rates", {"steps": [(1,), {"steps": 0}]}, fine=(3,))'


def prove(folder: Path, law: str, wrong: str = "", *, more: str = "") -> ExerciseProof:
    suite = f"def test_errors(student):\n    '''Errors'''\n    {more}\n    {law}\n"
    write(folder, suite, SOLUTION, wrong, preload="[]")
    stub = "def rates(steps):\n    raise NotImplementedError\n"
    for name in ("exercises/one/task.py", "tests/stubs/one/task.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(stub, encoding="utf-8")
    course = load_course(folder)
    (proof,) = verify(course, course.exercises, seeds=1)
    return proof


def test_a_test_that_only_saboteurs_fail_is_proved(tmp_path: Path) -> None:
    proof = prove(tmp_path, LAW)
    assert (proof.complaints, proof.wrong, proof.saboteurs) == ((), 0, 2)


PASSES = (
    "hidden test_errors: laws.check_errors does not catch rates that {}; the test is passed. Give the law what "
    "shows it, or excuse it with a reason as [[harmless]] in tests/wrong/one/task.toml."
)
NAMES_NOTHING = "raises an error that does not name the argument (names_no_argument)"
# The law of no calls holds whatever the answer; that the call before it is refused puts a saboteur to work.
CALL = "try:\n        student.function('rates')(1)\n    except ValueError:\n        pass"
NO_CALLS = 'laws.check_errors(student, "rates", {"steps": []})'
UNPROVED = "task: no wrong answer fails hidden test_errors."


def test_a_law_that_cannot_fail_is_told(tmp_path: Path) -> None:
    drops = PASSES.format("raises no error at a bad argument (drops_check('steps'))")
    complaints = prove(tmp_path, NO_CALLS, more=CALL).complaints
    assert complaints == (PASSES.format(NAMES_NOTHING), drops, UNPROVED)


def test_a_law_whose_saboteurs_find_nothing_to_do_proves_nothing(tmp_path: Path) -> None:
    more = "student.function('rates')(3)"
    assert prove(tmp_path, NO_CALLS, more=more).complaints == (UNPROVED,)


def test_what_another_check_catches_is_not_the_merit_of_the_law(tmp_path: Path) -> None:
    words = CALL.replace(
        "ValueError:\n        pass", "ValueError as e:\n        assert 'steps' in str(e)"
    )
    proof = prove(tmp_path, f"{NO_CALLS}\n    {words}")
    told = PASSES.format(NAMES_NOTHING).partition("passed")[0] + "failed: "
    assert [complaint.startswith(told) for complaint in proof.complaints] == [True, False, False]


HARMLESS = """
[[harmless]]
test = "test_errors"
saboteur = "{}"
reason = "{}"
"""


def test_a_saboteur_may_be_excused(tmp_path: Path) -> None:
    excuses = [HARMLESS.format(s, "r") for s in ("names_no_argument", "drops_check('steps')")]
    assert prove(tmp_path, NO_CALLS, "".join(excuses), more=CALL).complaints == (UNPROVED,)


def test_an_excuse_that_is_none_is_told(tmp_path: Path) -> None:
    file = "tests/wrong/one/task.toml: harmless"
    idle, empty = HARMLESS.format("draws", "r"), HARMLESS.format("seeds", " ")
    odd = '[[harmless]]\nsaboteur = "rounds"\nwhy = "r"\n'
    assert prove(tmp_path, LAW, idle + empty + odd).complaints == (
        f"{file} 'seeds': a reason may not be empty.",
        f"{file} 'rounds': Object contains unknown field `why`.",
        f"{file} 'draws' of test_errors: there is none that passes; remove the entry.",
    )
