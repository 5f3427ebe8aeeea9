"""Checks of a probe module that need only its source, without a sandbox or a solution.

If the probe lacks a function that a suite calls, or uses an undefined name, the course is at fault, whatever a
submission's sandbox reports.
"""

from __future__ import annotations

import ast
import builtins
import functools
import marshal
import symtable
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.course.syntax import syntax_tree
from grader.errors import JudgeError
from grader.sandbox.wire.messages import PROBE_FILE
from grader.text import nearest

# With one of these, a module may define names that its source does not show.
_DYNAMIC = frozenset(("globals", "exec", "__getattr__"))


class Probe(msgspec.Struct, frozen=True):
    """A probe's file, compiled; `named` are the names that its module uses or defines at the top level."""

    path: Path
    source: bytes
    code: bytes
    named: frozenset[str]

    @property
    def name(self) -> str:
        """The name of the module."""
        return self.path.stem

    def require(self, function: str) -> None:
        """Raise JudgeError if the probe has no function of this name."""
        if function in self.named or (names := _names_of(self.source)) is None:
            return
        if function not in names.defined:
            public = sorted(name for name in names.defined if not name.startswith("_"))
            raise JudgeError(
                f"The suite runs {function} of {self.path.name}, which does not define it. "
                f"{nearest(function, public)}"
            )

    def refuse_undefined(self, text: str) -> None:
        """Raise JudgeError if a NameError with this text is about a name that the probe does not define."""
        names = _names_of(self.source)
        for name, line in names.undefined.items() if names is not None else ():
            if text.startswith(f"name {name!r} is not defined"):
                raise JudgeError(
                    f"{self.path.name}, line {line}: the name {name!r} is not defined."
                )


def read_probe(path: Path, use: str) -> Probe:
    """Read the probe whose function `use` a suite calls.

    Raises JudgeError if the file is missing or not Python.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        raise JudgeError(
            f"The suite runs {use} of {path.name}, and no such file is beside it."
        ) from None
    return _read(path, status.st_mtime_ns, status.st_size)


# A judge sends the same probes to every submission's sandbox.
@functools.lru_cache(maxsize=64)
def _read(path: Path, changed: int, size: int) -> Probe:  # noqa: ARG001 (the version, as a key of the cache)
    source = path.read_bytes()
    try:
        code = compile(source, PROBE_FILE, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        message = getattr(error, "msg", None) or str(error)
        raise JudgeError(f"{path.name}, line {line}, is not valid Python: {message}.") from None
    return Probe(path, source, marshal.dumps(code), frozenset(code.co_names))


class _Names(msgspec.Struct, frozen=True):
    """The names that a module defines, and the lines of names that it uses without defining them."""

    defined: frozenset[str]
    undefined: dict[str, int]


@functools.lru_cache(maxsize=64)
def _names_of(source: bytes) -> _Names | None:
    """Return the names of a module, None if its source does not show all of them."""
    tree = syntax_tree(source)
    top = symtable.symtable(ast.unparse(tree), PROBE_FILE, "exec")
    defined = {name for table in _tables(top) for name in _bound(table, at_top=table is top)}
    nodes = list(ast.walk(tree))
    lines = {node.id: node.lineno for node in reversed(nodes) if isinstance(node, ast.Name)}
    stars = any(isinstance(n, ast.ImportFrom) and n.names[0].name == "*" for n in nodes)
    if stars or not _DYNAMIC.isdisjoint(lines.keys() | defined):
        return None
    used = {
        symbol.get_name()
        for table in _tables(top)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or table is top)
    }
    unknown = used - defined - set(vars(builtins)) - {"__name__", "__doc__"}
    undefined = {name: lines[name] for name in unknown if name in lines}
    return _Names(frozenset(defined), undefined)


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _bound(table: symtable.SymbolTable, *, at_top: bool) -> Iterator[str]:
    """Yield the names that a scope defines in the module: its own at the top, else global declarations."""
    for symbol in table.get_symbols():
        makes = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
        if makes and (at_top or symbol.is_declared_global()):
            yield symbol.get_name()
