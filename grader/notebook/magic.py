"""`%%grade`: a cell that is judged instead of run."""

from __future__ import annotations

import argparse
import ast
import itertools
import shlex
from typing import Any, NoReturn

from grader.errors import GraderError
from grader.notebook.checking import judge_cell
from grader.notebook.history import SourcePiece
from grader.notebook.verdict import CheckResult

_USAGE = "%%grade EXERCISE [--course FOLDER] [--suite public|hidden|all] [--run]"


def load_ipython_extension(shell: Any) -> None:
    """Make `%%grade` known; called by `%load_ext grader.notebook`."""
    shell.register_magic_function(_Grade(shell).judge, "cell", "grade")


class _Arguments(argparse.ArgumentParser):
    """Says what is wrong as IPython does, and does not end the kernel."""

    def error(self, message: str) -> NoReturn:
        from IPython.core.error import UsageError

        raise UsageError(f"{message}. Use it as: {_USAGE}")


def _arguments() -> _Arguments:
    arguments = _Arguments(usage=_USAGE.replace("%", "%%"), add_help=False)
    arguments.add_argument("exercise")
    arguments.add_argument("--course", default=".")
    arguments.add_argument("--suite", choices=("public", "hidden", "all"), default="all")
    arguments.add_argument("--run", action="store_true")
    return arguments


def _options(line: str) -> argparse.Namespace:
    arguments = _arguments()
    try:
        return arguments.parse_args(shlex.split(line))
    except ValueError as error:
        arguments.error(str(error).lower())


class _Grade:
    """The magic of one IPython shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def judge(self, line: str, cell: str) -> CheckResult:
        """Judge the text of this cell, behind the walls; nothing of it runs in the notebook.

        %%grade glu [--course FOLDER] [--suite public|hidden|all] [--run]

        The names that it takes from other cells come along: their imports, helpers and plain
        constants. What is missing of the exercise counts as not written yet. With --run the cell
        is then run here as well, as any other cell.
        """
        options = _options(line)
        try:
            verdict = judge_cell(
                self._piece(cell),
                self._shell.user_ns,
                options.exercise,
                course=options.course,
                suite=options.suite,
            )
        except GraderError as error:
            from IPython.core.error import UsageError

            # One sentence for the reader, and not the way through our code.
            raise UsageError(str(error)) from error
        if options.run:
            self._shell.run_cell(cell)
        return verdict

    def _piece(self, cell: str) -> SourcePiece:
        # Its own number, which `execution_count` is no longer; the magic's line is the first one.
        number = len(self._shell.user_ns["In"]) - 1
        # IPython takes the empty lines of the beginning away.
        first = 2 + len(list(itertools.takewhile(lambda line: not line.strip(), cell.split("\n"))))
        return SourcePiece(_python_of(self._shell.transform_cell(cell)), f"In[{number}]", first)


def _python_of(transformed: str) -> str:
    """A cell without its %magics and !commands, which are for the notebook: blank lines instead."""
    lines = transformed.split("\n")
    try:
        body = ast.parse(transformed).body
    except (SyntaxError, ValueError):
        return transformed
    for node in body:
        if isinstance(node, ast.Expr | ast.Assign) and _is_magic(node.value):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[number - 1] = ""
    return "\n".join(lines)


def _is_magic(value: ast.expr) -> bool:
    """Whether this is what IPython makes of a magic: get_ipython().run_line_magic(...)."""
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and isinstance(value.func.value, ast.Call)
        and isinstance(value.func.value.func, ast.Name)
        and value.func.value.func.id == "get_ipython"
    )
