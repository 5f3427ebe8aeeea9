"""From what a notebook defines to the source of an exercise's file, as the judge takes it.

The file begins with the stub, so that the given parts are there and what is missing says that it is still to
be written. Below it stand the imports, the constants and the helpers that the cells' code names, then
that code itself: the last definition of a name counts, in Python as for the judge.
"""

from __future__ import annotations

import ast
import builtins
import math
import symtable
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from grader.notebook.history import Cells, SourcePiece, future_imports
from grader.text import clean

_LONGEST_CONSTANT = 10_000
_DEEPEST_CONSTANT = 4
_FUTURE = "from __future__ import annotations\n"
# Names of types, which are statements of their own and no constants.
_ALIASES = (typing.TypeVar, types.GenericAlias, types.UnionType, type(typing.Optional[int]))  # noqa: UP045 (its type is meant)


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
    if future and not _future_imports(stub):
        # It has to be the first statement of a file.
        stub = _FUTURE + stub
    starts: list[tuple[int, SourcePiece]] = []
    text, line = "", 1
    for piece in (SourcePiece(stub, "the stub"), *pieces):
        starts.append((line, piece))
        body = piece.text if not starts[1:] else _without_future(piece.text)
        text += body.rstrip("\n") + "\n"
        line = text.count("\n") + 1
    return Composed(text.encode(), tuple(starts), tuple(notes))


class Gathering:
    """Pieces of source in an order in which they run, each name once.

    `given` are the names that the stub defines: they need not be found. `notes` says what was used
    and could not be brought along.
    """

    def __init__(self, namespace: Mapping[str, Any], given: frozenset[str]) -> None:
        self.pieces: list[SourcePiece] = []
        self.notes: list[str] = []
        self._namespace, self._given = namespace, given
        self._cells = Cells(namespace)
        self._seen: set[str] = set()

    def composed(self, stub: str) -> Composed:
        """The file of all pieces."""
        future = self._cells.annotations_unevaluated
        return compose(stub, self.pieces, notes=self.notes, future=future)

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
    bound = {
        symbol.get_name()
        for symbol in top.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }
    used = {
        symbol.get_name()
        for table in _tables(top)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or table is top)
    }
    return used - bound - set(vars(builtins)) - {"__name__", "__file__", "__doc__"}


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


# --- from __future__ ------------------------------------------------------------------------------


def _future_imports(text: str) -> list[ast.ImportFrom]:
    try:
        return future_imports(ast.parse(text))
    except (SyntaxError, ValueError):
        return []


def _without_future(text: str) -> str:
    lines = text.split("\n")
    for node in _future_imports(text):
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            lines[number - 1] = ""
    return "\n".join(lines)
