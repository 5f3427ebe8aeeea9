"""The cells of a notebook that ran: where a definition stands, and how a name was imported or assigned."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class SourcePiece(msgspec.Struct, frozen=True):
    """Some source, and where it stands: in which cell (or file), from which line on."""

    text: str
    where: str
    line: int = 1


class Cells:
    """The cells as IPython's namespace keeps them, the newest first; of a plain script, its file."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        cells, file = namespace.get("In"), str(namespace.get("__file__", ""))
        if isinstance(cells, list):
            texts = [(f"In[{number}]", str(cell)) for number, cell in enumerate(cells)]
        else:
            texts = [(file, "".join(linecache.getlines(file)))]
        self._cells = [(where, text, _parsed(text)) for where, text in reversed(texts)]
        # IPython keeps the flag for the cells that follow.
        self.annotations_unevaluated = any(future_imports(tree) for _, _, tree in self._cells)

    def definition(self, value: type | types.FunctionType) -> SourcePiece | None:
        """The newest definition of a class or a function, with its decorators; None if there is none."""
        code = getattr(inspect.unwrap(value), "__code__", None)
        for where, text, tree in self._cells:
            # Of two in one cell the last one counts; one at the top before one in a function.
            spans = [
                (node in tree.body, _first_line(node), node.end_lineno)
                for node in ast.walk(tree)
                if isinstance(node, _Definition) and node.name == value.__name__
                # A function says on which line it begins, a class does not.
                if code is None or code.co_firstlineno == _first_line(node)
            ]
            if spans:
                _, first, last = max(spans)
                lines = text.splitlines(keepends=True)[first - 1 : last]
                return SourcePiece(textwrap.dedent("".join(lines)), where, first)
        return None

    def import_of(self, name: str) -> str | None:
        """The newest import that binds this name; of a package, those of its modules, too."""
        of_package: set[str] = set()
        for node, alias in self._imports():
            statement, module = ast.unparse(node), getattr(node, "module", "")
            if isinstance(node, ast.Import) and alias.asname is None:
                if alias.name.partition(".")[0] == name:
                    of_package.add(statement)
            elif (alias.asname or alias.name) == name:
                return statement
            elif alias.name == "*" and hasattr(sys.modules.get(module), name):
                return f"from {module} import {name}"
        return "\n".join(sorted(of_package)) or None

    def assignment_of(self, name: str) -> SourcePiece | None:
        """The newest statement at the top of a cell that assigns to this name alone."""
        for where, text, tree in self._cells:
            for node in reversed(tree.body):
                targets = node.targets if isinstance(node, ast.Assign) else []
                if isinstance(node, ast.AnnAssign) and node.value is not None:
                    targets = [node.target]
                if [getattr(target, "id", None) for target in targets] == [name]:
                    return SourcePiece(ast.get_source_segment(text, node) or "", where, node.lineno)
        return None

    def _imports(self) -> Iterator[tuple[ast.Import | ast.ImportFrom, ast.alias]]:
        """Every import of one name, as a statement of its own."""
        for _, _, tree in self._cells:
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    yield from ((ast.Import([alias]), alias) for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    for alias in node.names:
                        yield ast.ImportFrom(node.module, [alias], 0), alias


def future_imports(tree: ast.Module) -> list[ast.ImportFrom]:
    """The statements `from __future__ import ...` of a cell or a file."""
    return [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):  # a cell that never ran
        return ast.Module([], [])


def _first_line(node: _Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
