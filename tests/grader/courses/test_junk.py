"""Junk earns nothing: what answers without an answer scores 0 in every exercise of the course."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.course import Course, Exercise, load_course
from grader.grading import judge_source, modules_of
from grader.judge.process import Judge, judges
from grader.results import Outcome, Visibility

COURSE = load_course(Path(__file__).parents[3])

# What each part that a student writes does instead; {first} is its first argument.
JUNK = {
    "None": "return None",
    "zero": "return 0",
    "zero point zero": "return 0.0",
    "True": "return True",
    "False": "return False",
    "text": "return ''",
    "list": "return []",
    "dict": "return {}",
    "first argument": "return {first}",
    "tensor": "import torch; return torch.zeros(())",
    "ValueError": "raise ValueError('no')",
    # One that names all that a message may have to name.
    "telling ValueError": "raise ValueError({words})",
    "RuntimeError": "raise RuntimeError('no')",
    "TypeError": "raise TypeError('no')",
    "mock": "import unittest.mock; return unittest.mock.MagicMock()",
}


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    """One judge and one fork server for all of the junk."""
    with judges(preload=modules_of(COURSE.exercises)) as (judge,):
        yield judge


@pytest.mark.parametrize("kind", JUNK)
@pytest.mark.parametrize("form", ["parts", "names"])
@pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda each: each.id)
def test_junk_earns_nothing(judge: Judge, exercise: Exercise, form: str, kind: str) -> None:
    source = (junk_parts if form == "parts" else junk_names)(COURSE, exercise, JUNK[kind])
    # Whatever it is, the sandbox has to take it: a file that cannot be loaded would prove nothing.
    compile(source, exercise.file, "exec")
    result = judge_source(
        judge, COURSE, exercise, source.encode(), seed=0, chosen=tuple(Visibility)
    ).result
    earning = [test.name for test in result.tests if test.outcome is Outcome.PASSED]
    assert (earning, result.score) == ([], 0.0)
    assert not any("could not be loaded" in test.message for test in result.tests)


def junk_parts(course: Course, exercise: Exercise, junk: str) -> str:
    """The stub with junk in the place of each part that a student writes, its classes as they are."""
    tree = ast.parse(course.stub(exercise).read_text(encoding="utf-8"))
    return ast.unparse(_Filled(junk.replace("{words}", _words(tree))).visit(tree))


def junk_names(course: Course, exercise: Exercise, junk: str) -> str:
    """The stub with a function of junk under each name that a student writes, those of classes too."""
    tree = ast.parse(course.stub(exercise).read_text(encoding="utf-8"))
    junk = junk.replace("{words}", _words(tree))
    for index, node in enumerate(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and _is_unwritten(node):
            body = junk.replace("{first}", "(*arguments, *keywords.values(), None)[0]")
            function = f"def {node.name}(*arguments, **keywords):\n    {body}"
            tree.body[index] = ast.parse(function).body[0]
    return ast.unparse(tree)


class _Filled(ast.NodeTransformer):
    """Puts junk in the place of every `raise NotImplementedError`."""

    def __init__(self, junk: str) -> None:
        self._junk = junk

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if not _is_unwritten(node):
            return node
        # A class can be built only if nothing comes back from here.
        junk = "return" if node.name == "__init__" and "return" in self._junk else self._junk
        first = next(each.arg for each in node.args.args if each.arg not in ("self", "ctx"))
        filled = ast.parse(junk.replace("{first}", first)).body
        node.body = [new for old in node.body for new in (filled if _is_unwritten(old) else [old])]
        return node


def _is_unwritten(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Raise) and "NotImplementedError" in ast.unparse(each)
        for each in ast.walk(node)
    )


def _words(tree: ast.Module) -> str:
    """All words that a message of an error may have to name: arguments, and names in constants."""
    arguments = [each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)]
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    constants = [
        each.value for node in assigned for each in ast.walk(node) if isinstance(each, ast.Constant)
    ]
    return repr(" ".join(dict.fromkeys([*arguments, *map(str, constants)])))
