"""One function makes all syntax trees, and several threads may call it at a time."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grader
from grader.course.syntax import syntax_tree

PACKAGE = Path(grader.__file__).parent
# Garbage is collected many times while this is parsed.
SOURCE = "\n".join(
    f"def f{n}(x):\n    return [x + {n}, {{x: (x, {n})}}, f(x)[{n}:]]" for n in range(300)
)


class Garbage:
    """An object that runs Python when it is collected as garbage."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        sum(range(10))


def test_threads_can_parse_at_the_same_time() -> None:
    """Before Python 3.11.8, every tenth tree was a SystemError here."""
    expected = ast.dump(ast.parse(SOURCE))

    def parse() -> None:
        for _ in range(20):
            Garbage()
            assert ast.dump(syntax_tree(SOURCE)) == expected

    with ThreadPoolExecutor(2) as threads:
        for run in [threads.submit(parse) for _ in range(2)]:
            run.result()


def test_no_other_module_parses() -> None:
    # A catalogue of attacks is data.
    modules = [path for path in PACKAGE.rglob("*.py") if "attacks" not in path.parts]
    found = {
        path.relative_to(PACKAGE).as_posix() for path in modules if "ast.parse(" in path.read_text()
    }
    assert found == {"course/syntax.py"}
