"""Wrong answers that `grade verify` makes on its own: the solution, with a saboteur around what a law is about.

Which saboteurs a law must catch stands beside the law, what they do in `grader.judge.checks.laws.saboteurs`.
The text of that goes with the submission: a sabotaged solution is a file like any other, and judged like one.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterable, Sequence

import msgspec

from grader.course.mutants import HarmlessSaboteur
from grader.course.suite import SuiteTest
from grader.judge.assignment import Judgment, LawCall
from grader.judge.checks.laws import saboteurs
from grader.results import Outcome, Visibility
from grader.submissions.source import parse

_INSTALL = """

_saboteurs = {{"__name__": "saboteurs"}}
exec(compile('''{text}''', "saboteurs", "exec"), _saboteurs)
_saboteurs["sabotage"](globals(), {targets!r}, eval({saboteur!r}, _saboteurs))
"""


class SabotagedSolution(msgspec.Struct, frozen=True):
    """The solution with one saboteur, and the test and the law that must catch it."""

    visibility: Visibility
    test: str
    law: str
    targets: tuple[str, ...]
    saboteur: str
    source: bytes

    @property
    def label(self) -> str:
        """Where it stands in a complaint."""
        return f"{self.visibility.value} {self.test}"

    @property
    def mistake(self) -> str:
        """What it does, in words."""
        does = inspect.getdoc(getattr(saboteurs, self.saboteur.partition("(")[0]))
        return f"{' or '.join(self.targets)} that {does} ({self.saboteur})"

    def was_at_work(self, judgment: Judgment) -> bool:
        """Whether the saboteur found something to do."""
        return saboteurs.AT_WORK in judgment.result.output

    def is_caught(self, judgment: Judgment) -> bool:
        """Whether the test fails, in words, and not after the law has let it pass."""
        (test,) = judgment.result.tests
        raised = test.outcome is Outcome.ERROR and saboteurs.AT_WORK in test.message
        calls = [call.held for call in judgment.laws if call.law == self.law]
        return (test.outcome is Outcome.FAILED or raised) and not (calls and all(calls))


def sabotaged(
    solution: bytes, calls: Iterable[LawCall], tests: Iterable[SuiteTest]
) -> list[SabotagedSolution]:
    """Make the wrong answers for these calls of laws, each once.

    A law that is about no name of the solution is taken to be about the place of its test.
    """
    places = {(test.visibility, test.name): test.place.partition(".")[0] for test in tests}
    defined = {
        node.name
        for node in parse(solution).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }
    answers: dict[SabotagedSolution, None] = {}
    for call in calls:
        test = call.visibility, call.test
        targets = tuple(name for name in call.targets if name in defined)
        targets = targets or tuple({places[test]} & defined)
        for saboteur in call.saboteurs if targets else ():
            source = solution + _install(targets, saboteur).encode()
            answers[SabotagedSolution(*test, call.law, targets, saboteur, source)] = None
    return list(answers)


def _install(targets: Sequence[str], saboteur: str) -> str:
    return _INSTALL.format(text=_text(), targets=list(targets), saboteur=saboteur)


@functools.cache
def _text() -> str:
    # Between three quotes: one long line would be looked at as if it were an attack on the parser.
    return inspect.getsource(saboteurs).replace("\\", "\\\\")


def saboteur_complaints(
    judged: Iterable[tuple[SabotagedSolution, Judgment]],
    harmless: Sequence[HarmlessSaboteur],
    file: str,
) -> list[str]:
    """Saboteurs that a law lets pass, and excuses in the mutants `file` for what needs none."""
    complaints, excused = [], set()
    for answer, judgment in judged:
        if not answer.was_at_work(judgment) or answer.is_caught(judgment):
            continue
        entry = next(
            (e for e in harmless if (e.test, e.saboteur) == (answer.test, answer.saboteur)), None
        )
        excused.add(entry)
        if entry is None:
            (test,) = judgment.result.tests
            ends = test.outcome.value + (f": {test.message}" if test.message else "")
            complaints.append(
                f"{answer.label}: laws.{answer.law} does not catch {answer.mistake}; the test is {ends}. "
                f"Give the law what shows it, or excuse it with a reason as [[harmless]] in {file}."
            )
    complaints += [
        f"{file}: harmless {entry.saboteur!r} of {entry.test}: there is none that passes; remove the entry."
        for entry in harmless
        if entry not in excused
    ]
    return complaints
