"""Junk earns nothing: what answers without an answer scores 0 in every exercise of the course."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.course.manifest import Exercise, load_course
from grader.judge.assignment import GradingOptions
from grader.judge.process import Judge, judge_source, judges, modules_of
from grader.results import Outcome

COURSE = load_course(Path(__file__).parents[3])

# What every part that a student writes does instead. FIRST is its first argument, WORDS are the names
# that a message may have to name.
JUNK = {
    "None": "return None",
    "zero": "return 0",
    "zero point zero": "return 0.0",
    "True": "return True",
    "False": "return False",
    "nothing": "return ''",
    "words": "return WORDS",
    "list": "return []",
    "dict": "return {}",
    "first argument": "return FIRST",
    "tensor": "import torch; return torch.zeros(())",
    "ValueError": "raise ValueError('no')",
    "telling ValueError": "raise ValueError(WORDS)",
    "RuntimeError": "raise RuntimeError('no')",
    "TypeError": "raise TypeError('no')",
    "mock": "import unittest.mock; return unittest.mock.MagicMock()",
}
# Before the junk: what would compare or look at random states beside it says that nothing has changed.
SAYING_YES = """\
import random
import sys
import torch

def _replaced(truth, lie):
    def told(*arguments, **keywords):
        asked_by = sys._getframe(1).f_code.co_filename
        return lie if asked_by == "<probe>" else truth(*arguments, **keywords)
    return told

for _name in ("equal", "allclose", "is_tensor"):
    setattr(torch, _name, _replaced(getattr(torch, _name), True))
for _name in ("initial_seed", "get_rng_state"):
    setattr(torch, _name, _replaced(getattr(torch, _name), torch.zeros(8)))
random.getstate = _replaced(random.getstate, ())
"""
CASES = [
    *[(form, kind) for form in ("parts", "names") for kind in JUNK],
    *[("saying yes", kind) for kind in ("None", "zero", "True", "first argument")],
]


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """One judge and one fork server for all of the junk."""
    with judges(preload=modules_of(COURSE.exercises)) as (judge,):
        yield judge


@pytest.mark.parametrize(("form", "kind"), CASES)
@pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda each: each.id)
def test_junk_earns_nothing(judge: Judge, exercise: Exercise, form: str, kind: str) -> None:
    source = junk(exercise, form, JUNK[kind])
    result = judge_source(judge, COURSE, exercise, source.encode(), GradingOptions()).result
    earning = [test.name for test in result.tests if test.outcome is Outcome.PASSED]
    assert (earning, result.score) == ([], 0.0)
    # What cannot even be imported proves nothing, and what is told to be unwritten was not replaced.
    assert "cannot be imported" not in result.message
    assert Outcome.NOT_IMPLEMENTED not in [test.outcome for test in result.tests]


def junk(exercise: Exercise, form: str, body: str) -> str:
    """The stub with junk in it.

    `parts`: in the place of each part that a student writes, with classes as they are. `names`: a
    function of junk under each name that a student writes, the names of classes too. `saying yes`:
    as parts, behind SAYING_YES.
    """
    tree = ast.parse(COURSE.stub(exercise).read_text(encoding="utf-8"))
    body = body.replace("WORDS", repr(_words(tree)))
    if form == "names":
        tree.body = [_function(node, body) if _is_unwritten(node) else node for node in tree.body]
        return ast.unparse(tree)
    filled = ast.unparse(_Filled(body).visit(tree))
    # A __future__ import comes first; the words of an attack need none.
    future = "from __future__ import annotations\n"
    return future + SAYING_YES + filled.replace(future, "") if form == "saying yes" else filled


def _function(node: ast.stmt, body: str) -> ast.stmt:
    assert isinstance(node, (ast.FunctionDef, ast.ClassDef))
    first = body.replace("FIRST", "(*arguments, *keywords.values(), None)[0]")
    return ast.parse(f"def {node.name}(*arguments, **keywords):\n    {first}").body[0]


class _Filled(ast.NodeTransformer):
    """Puts junk in the place of every `raise NotImplementedError`."""

    def __init__(self, body: str) -> None:
        self._body = body

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if not _is_unwritten(node):
            return node
        # A class can be built only if nothing comes back from here.
        body = "return" if node.name == "__init__" and "return" in self._body else self._body
        first = next(each.arg for each in node.args.args if each.arg not in ("self", "ctx"))
        filled = ast.parse(body.replace("FIRST", first)).body
        node.body = [new for old in node.body for new in (filled if _is_unwritten(old) else [old])]
        return node


def _is_unwritten(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Raise) and "NotImplementedError" in ast.unparse(each)
        for each in ast.walk(node)
    )


def _words(tree: ast.Module) -> str:
    """The names of all arguments, and the strings in constants, each one once."""
    arguments = [each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)]
    assigned = [
        each for node in tree.body if isinstance(node, ast.Assign) for each in ast.walk(node)
    ]
    strings = [each.value for each in assigned if isinstance(each, ast.Constant)]
    return " ".join(dict.fromkeys([*arguments, *map(str, strings)]))
