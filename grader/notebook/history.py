"""The source in the cells of a notebook: the lines of a definition, and the import or assignment of a name."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class SourcePiece(msgspec.Struct, frozen=True):
    """Some source, and where it stands: in which cell (or file), from which line on."""

    text: str
    where: str
    line: int = 1


class Cells:
    """The cells that ran, as IPython's namespace keeps them; in a plain script there are none."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        cells = namespace.get("In")
        self._texts = [str(cell) for cell in cells] if isinstance(cells, list) else []

    def definition(self, value: type | types.FunctionType) -> SourcePiece | None:
        """The source of a class or a function, with its decorators; None if it cannot be found."""
        code = _code_of(value)
        if code is not None:
            lines = linecache.getlines(code.co_filename)
            return _found(lines, value.__name__, code.co_firstlineno, self._name(code.co_filename))
        # A class without a function of its own says nothing of where it was defined.
        for number, text in self._newest_first():
            piece = _found(text.splitlines(keepends=True), value.__name__, None, f"In[{number}]")
            if piece is not None:
                return piece
        return None

    def import_of(self, name: str) -> str | None:
        """The newest import that binds this name; of a package, those of its modules, too."""
        dotted: list[str] = []
        for _, text in self._newest_first():
            for node in ast.walk(_parsed(text)):
                if isinstance(node, ast.Import):
                    for alias in node.names:
                        if alias.asname == name:
                            return f"import {alias.name} as {name}"
                        if alias.asname is None and alias.name.partition(".")[0] == name:
                            dotted.append(f"import {alias.name}")
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    for alias in node.names:
                        if (alias.asname or alias.name) == name:
                            return f"from {node.module} import {alias.name} as {name}"
        return "\n".join(sorted(set(dotted))) or None

    def assignment_of(self, name: str) -> SourcePiece | None:
        """The newest statement at the top of a cell that assigns to this name alone."""
        for number, text in self._newest_first():
            for node in reversed(_parsed(text).body):
                targets = node.targets if isinstance(node, ast.Assign) else []
                if isinstance(node, ast.AnnAssign) and node.value is not None:
                    targets = [node.target]
                if len(targets) == 1 and isinstance(targets[0], ast.Name) and targets[0].id == name:
                    source = ast.get_source_segment(text, node) or ""
                    return SourcePiece(source, f"In[{number}]", node.lineno)
        return None

    def _newest_first(self) -> Iterator[tuple[int, str]]:
        return ((number, self._texts[number]) for number in reversed(range(len(self._texts))))

    def _name(self, filename: str) -> str:
        """What a person calls the file of a code object: In[3] for that of a cell."""
        shell: Callable[[], Any] | None = self._namespace.get("get_ipython")
        compiler = getattr(shell() if callable(shell) else None, "compile", None)
        if (name := getattr(compiler, "format_code_name", lambda _: None)(filename)) is not None:
            return str(name[1])
        return filename


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):  # a cell that never ran
        return ast.Module([], [])


def _code_of(value: type | types.FunctionType) -> types.CodeType | None:
    """The code of a function, or that of any function in the body of a class."""
    if not isinstance(value, type):
        code: types.CodeType | None = getattr(inspect.unwrap(value), "__code__", None)
        return code
    for member in vars(value).values():
        function = getattr(member, "__func__", getattr(member, "fget", member))
        if isinstance(function, types.FunctionType) and function.__module__ == value.__module__:
            inner: types.CodeType = inspect.unwrap(function).__code__
            if inner.co_qualname.startswith(f"{value.__qualname__}."):
                return inner
    return None


def _found(lines: list[str], name: str, line: int | None, where: str) -> SourcePiece | None:
    """The innermost definition of this name around a line; without a line the last one."""
    best: tuple[int, int] | None = None
    for node in ast.walk(_parsed("".join(lines))):
        if isinstance(node, _Definition) and node.name == name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            last = node.end_lineno or node.lineno
            if line is None or first <= line <= last:
                best = (first, last)
    if best is None:
        return None
    return SourcePiece(textwrap.dedent("".join(lines[best[0] - 1 : best[1]])), where, best[0])
