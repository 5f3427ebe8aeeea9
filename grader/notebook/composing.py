"""From what a notebook defines to the source of an exercise's file, as the judge takes it.

The file begins with the stub, so that the given parts are there and what is missing says that it is still to
be written. Below it stand the imports, the constants and the helpers that the cells' code names, then
that code itself: the last definition of a name counts, in Python as for the judge. Where a definition
stands, and how a name was imported or assigned, is looked up in the cells that ran.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import math
import symtable
import sys
import textwrap
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from grader.text import clean

_LONGEST_CONSTANT = 10_000
_DEEPEST_CONSTANT = 4
_FUTURE = "from __future__ import annotations\n"
# Names of types, which are statements of their own and no constants.
_ALIASES = (typing.TypeVar, types.GenericAlias, types.UnionType, type(typing.Optional[int]))  # noqa: UP045 (its type is meant)
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class SourcePiece(msgspec.Struct, frozen=True):
    """Some source, and where it stands: in which cell (or file), from which line on."""

    text: str
    where: str
    line: int = 1


class Composed(msgspec.Struct, frozen=True):
    """The source of the file, where its lines come from, and what there is to say about it."""

    source: bytes
    starts: tuple[tuple[int, SourcePiece], ...]
    notes: tuple[str, ...]

    def place(self, line: int) -> tuple[str, int]:
        """Where a line of the file stands: in which cell, and the line in it."""
        above = [(start, piece) for start, piece in self.starts if start <= line]
        start, piece = above[-1] if above else self.starts[0]
        return piece.where, piece.line + line - start


def compose(
    stub: str, pieces: Sequence[SourcePiece], *, notes: Sequence[str] = (), future: bool = False
) -> Composed:
    """Put the pieces below the stub; with `future` all annotations stay unevaluated."""
    if future and not future_imports(parsed(stub)):
        # It has to be the first statement of a file.
        stub = _FUTURE + stub
    starts: list[tuple[int, SourcePiece]] = []
    text, line = "", 1
    for piece in (SourcePiece(stub, "the stub"), *pieces):
        starts.append((line, piece))
        body = (
            piece.text
            if not starts[1:]
            else blanked(piece.text, future_imports(parsed(piece.text)))
        )
        text += body.rstrip("\n") + "\n"
        line = text.count("\n") + 1
    return Composed(text.encode(), tuple(starts), tuple(notes))


class Gathering:
    """Pieces of source in an order in which they run, each name once.

    The names that the stub defines, its imports among them, need not be found. `notes` says what was used
    and could not be brought along.
    """

    def __init__(self, namespace: Mapping[str, Any], stub: str) -> None:
        self.pieces: list[SourcePiece] = []
        self.notes: list[str] = []
        self._namespace, self._stub = namespace, stub
        self._given = _bound(symtable.symtable(stub, "<stub>", "exec"))
        self._cells = Cells(namespace)
        self._seen: set[str] = set()

    def composed(self) -> Composed:
        """The file of all pieces."""
        future = self._cells.annotations_unevaluated
        return compose(self._stub, self.pieces, notes=self.notes, future=future)

    def add_definition(self, value: type | types.FunctionType) -> bool:
        """Bring a class or function of the notebook, what it names first; False if it is not found."""
        if value.__name__ in self._seen:
            return True
        self._seen.add(value.__name__)
        if (piece := self._cells.definition(value)) is not None:
            self.add_piece(piece)
        return piece is not None

    def add_piece(self, piece: SourcePiece) -> None:
        """Bring a piece of source, what it names first."""
        for name in sorted(_names_needed(piece.text)):
            if name not in self._seen:
                self._add_name(name, piece)
        self.pieces.append(piece)

    def _add_name(self, name: str, user: SourcePiece) -> None:
        """Bring what a name stands for, or note why it did not come along."""
        value: Any = self._namespace.get(name)
        if getattr(value, "__name__", None) == name and _is_definition(value, self._namespace):
            if not self.add_definition(value):
                self._leave_out(name, user, "its source was not found")
            return
        self._seen.add(name)
        if name not in self._namespace:
            if name not in self._given:
                self.notes.append(f"{clean(name)} is used in {user.where}, and not defined.")
        elif (statement := self._cells.import_of(name)) is not None:
            self.pieces.append(SourcePiece(statement, "an import"))
        elif _is_plain(value, _DEEPEST_CONSTANT) and len(_written(value)) <= _LONGEST_CONSTANT:
            self.pieces.append(SourcePiece(f"{name} = {_written(value)}", "a constant"))
        elif isinstance(value, _ALIASES) and (piece := self._cells.assignment_of(name)) is not None:
            self.add_piece(piece)
        else:
            self._leave_out(name, user, f"it is a value of type {clean(type(value).__name__, 60)}")

    def _leave_out(self, name: str, user: SourcePiece, why: str) -> None:
        self.notes.append(
            f"{clean(name)} is used in {user.where}, but {why}, and did not come along: in a file of "
            "its own your code would not find it either. Make it an argument, or a plain constant."
        )


def _is_definition(value: Any, namespace: Mapping[str, Any]) -> bool:
    """Whether a value is a class or a function that was defined in this namespace."""
    is_one = isinstance(value, type | types.FunctionType) or hasattr(value, "__wrapped__")
    return is_one and getattr(value, "__module__", None) == namespace.get("__name__")


# --- names ----------------------------------------------------------------------------------------


def _names_needed(text: str) -> set[str]:
    """The global names that a piece of source uses and does not define itself."""
    try:
        top = symtable.symtable(text, "<cell>", "exec")
    except (SyntaxError, ValueError):
        return set()
    used = {
        symbol.get_name()
        for table in _tables(top)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or table is top)
    }
    return used - _bound(top) - set(vars(builtins)) - {"__name__", "__file__", "__doc__"}


def _bound(table: symtable.SymbolTable) -> set[str]:
    """The names that a scope makes: what it assigns, imports and defines."""
    return {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _is_plain(value: Any, depth: int) -> bool:
    """Whether a value is plain all through, and small."""
    if isinstance(value, float) and not math.isfinite(value):
        return depth == _DEEPEST_CONSTANT
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return not isinstance(value, int | str | bytes) or sys.getsizeof(value) < _LONGEST_CONSTANT
    if depth == 0 or type(value) not in (list, tuple, set, frozenset, dict) or len(value) > 1000:
        return False
    parts = [*value, *value.values()] if type(value) is dict else list(value)
    return all(_is_plain(part, depth - 1) for part in parts)


def _written(value: Any) -> str:
    if type(value) is float and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


# --- the cells that ran ----------------------------------------------------------------------------


class Cells:
    """The cells as IPython's namespace keeps them, the newest first; of a plain script, its file."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        cells, file = namespace.get("In"), str(namespace.get("__file__", ""))
        if isinstance(cells, list):
            texts = [(f"In[{number}]", str(cell)) for number, cell in enumerate(cells)]
        else:
            texts = [(file, "".join(linecache.getlines(file)))]
        self._cells = [(where, text, parsed(text)) for where, text in reversed(texts)]
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


def parsed(text: str) -> ast.Module:
    """The syntax tree of a cell or a file; an empty one of a cell that is no Python, and never ran."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def blanked(text: str, nodes: Iterable[ast.stmt]) -> str:
    """The text without these statements: blank lines stand for them, so that all others keep their number."""
    lines = text.split("\n")
    for node in nodes:
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            lines[number - 1] = ""
    return "\n".join(lines)


def _first_line(node: _Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
