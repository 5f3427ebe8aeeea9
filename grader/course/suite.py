"""The tests of one suite, read from its syntax tree: no import, no torch, and nothing hidden by a run.

A suite is plain pytest with a few rules, so that its tests are known before they run: each test
is a function of the module, with a docstring whose first sentence is its title. It takes `student`, or
`code` and `draw` if it is compared with the solution, and has a decorator with literal arguments:

    @promise("Class.method", points=2, hint="...", after="test_a", word="...", unproven="...")

`grader.judge.checks.promise` explains each of them. Marks of pytest express the same one by one:
pytest.mark.place, points, hint, requires, word and unproven.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from grader.course.syntax import syntax_tree
from grader.errors import CourseError
from grader.results import Visibility
from grader.text import nearest
from grader.toml import sentence

MARKS = ("points", "requires", "place", "hint", "word", "unproven")
_PROMISE = "promise"
_PARAMETERS = ["student"], ["code", "draw"]


class SuiteTest(msgspec.Struct, frozen=True):
    """One test as its author declared it, at this line; `share` is the exercise's share that contains it.

    A test with a `word` believes statements that any code in the sandbox can make: its points count only beside
    others'. A `compared` test also runs on the solution.
    """

    name: str
    title: str
    visibility: Visibility
    points: float = 1.0
    requires: tuple[str, ...] = ()
    place: str = ""
    hint: str = ""
    word: str = ""
    unproven: str = ""
    line: int = 0
    share: str = ""
    compared: bool = False

    @property
    def is_value(self) -> bool:
        """Whether it uses results for inputs drawn in the run: public examples can be answered from a table."""
        return self.visibility is Visibility.HIDDEN and not self.word

    @property
    def subject(self) -> str:
        """The function or class that it is about."""
        return self.share or self.place.partition(".")[0]


def read_suite(path: Path, visibility: Visibility) -> tuple[SuiteTest, ...]:
    """Return the tests of one file; a violation of the rules is a CourseError with file and line."""
    return _read(path, path.read_bytes(), visibility)


def is_compared(suites: Mapping[Visibility, Path]) -> bool:
    """Return whether a test of the suites also runs on the solution, which must then be where the suites are.

    A suite that cannot be read compares nothing; judging by it reports the problem.
    """
    for visibility, path in suites.items():
        with contextlib.suppress(CourseError):
            if any(test.compared for test in read_suite(path, visibility)):
                return True
    return False


# A judge reads the same suites for every submission.
@functools.lru_cache(maxsize=256)
def _read(path: Path, source: bytes, visibility: Visibility) -> tuple[SuiteTest, ...]:
    """Return the tests of a source; the path is for messages."""
    try:
        tree = syntax_tree(source)
    except SyntaxError as error:
        raise CourseError(f"{path}, line {error.lineno}: {error.msg}.") from error
    tests: list[SuiteTest] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            test = _read_test(path, node, visibility)
            _check(path, node, test, tests)
            tests.append(test)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            raise _error(path, node, "tests are functions of the module, not methods")
    if not tests:
        raise CourseError(f"{path}: it has no tests; a suite without tests proves nothing.")
    return tuple(tests)


def _check(path: Path, node: ast.FunctionDef, test: SuiteTest, before: list[SuiteTest]) -> None:
    """Refuse fixtures, repeated names and late requirements, which pytest accepts but a judge cannot run."""
    names = [test.name for test in before]
    parameters = node.args
    named = [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]
    names_of = [argument.arg for argument in named]
    if names_of not in _PARAMETERS or parameters.vararg or parameters.kwarg:
        told = "takes `student`, or `code` and `draw`, and nothing else: no fixtures"
        raise _error(path, node, f"{node.name} {told}")
    _check_compared(path, node, test)
    if test.name in names:
        raise _error(path, node, f"a second {test.name}; pytest would forget the first")
    for required in test.requires:
        if required not in names:
            meant = nearest(required, names)
            raise _error(
                path, node, f"requires {required!r}, which is not an earlier test. {meant}"
            )
    if not 0 < test.points < math.inf:
        raise _error(path, node, "points are a number above 0")


def _check_compared(path: Path, node: ast.FunctionDef, test: SuiteTest) -> None:
    """Refuse tests that would compare nothing, or never run."""
    yields = any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in ast.walk(node))
    decorators = [ast.unparse(d.func) for d in node.decorator_list if isinstance(d, ast.Call)]
    if test.compared and not yields:
        raise _error(
            path, node, f"{node.name} takes `code` and `draw`, and yields nothing to compare"
        )
    if yields and not test.compared:
        raise _error(path, node, f"{node.name} yields cases: it takes `code` and `draw`")
    if test.compared and decorators != [_PROMISE]:
        raise _error(
            path, node, f"{node.name} takes `code` and `draw`: its decorator is @promise(...)"
        )


def _read_test(path: Path, node: ast.FunctionDef, visibility: Visibility) -> SuiteTest:
    """Return a test from its docstring and its marks."""
    docstring = ast.get_docstring(node)
    if not docstring:
        raise _error(path, node, f"{node.name} has no docstring; its first sentence is the title")
    title = " ".join(docstring.split("\n\n")[0].split()).rstrip(".")
    marks: dict[str, Any] = {}
    compared = [argument.arg for argument in node.args.args] == _PARAMETERS[1]
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == _PROMISE:
            marks |= _promise(path, decorator)
            continue
        name, arguments = _mark(path, decorator)
        if name in marks:
            raise _error(path, decorator, f"pytest.mark.{name} is there twice; use one")
        marks[name] = arguments if name == "requires" else arguments[0]
    if "points" in marks:
        marks["points"] = float(marks["points"])
    return SuiteTest(
        name=node.name,
        title=title,
        visibility=visibility,
        line=node.lineno,
        compared=compared,
        **marks,
    )


def _promise(path: Path, decorator: ast.Call) -> dict[str, Any]:
    """Return the arguments of `promise`, which are literals, so nothing is run to read them."""
    keywords: dict[str, Any] = {}
    try:
        (place,) = map(ast.literal_eval, decorator.args)
        keywords = {str(word.arg): ast.literal_eval(word.value) for word in decorator.keywords}
    except ValueError:
        told = "promise takes a place and keywords, all of them literals: no names and no f-strings"
        raise _error(path, decorator, told) from None
    known = ("points", "hint", "after", "word", "unproven")
    for name in keywords:
        if name not in known:
            raise _error(path, decorator, f"promise has no {name!r}. {nearest(name, known)}")
    after = keywords.pop("after", ())
    return {"place": place, "requires": (after,) if isinstance(after, str) else after, **keywords}


def _mark(path: Path, decorator: ast.expr) -> tuple[str, tuple[Any, ...]]:
    """Return the name and the arguments of a mark, which are literals, so nothing is run to read them."""
    mark = ""
    try:
        assert isinstance(decorator, ast.Call) and not decorator.keywords
        mark = ast.unparse(decorator.func).removeprefix("pytest.mark.")
        arguments = tuple(ast.literal_eval(argument) for argument in decorator.args)
        assert mark in MARKS and arguments
    except (AssertionError, ValueError):
        told = f"the decorators of a test are pytest.mark.… with literal arguments, one of: {', '.join(MARKS)}"
        if mark.isidentifier() and mark not in MARKS:
            told = f"there is no mark {mark!r} for a test. {nearest(mark, MARKS)}"
        raise _error(path, decorator, told) from None
    return mark, arguments


def _error(path: Path, node: ast.stmt | ast.expr, text: str) -> CourseError:
    return CourseError(f"{path}, line {node.lineno}: {sentence(text)}")
