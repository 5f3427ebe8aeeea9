"""Compose an exercise's file from definitions in a notebook.

The file begins with the stub, which provides the given parts and raises NotImplementedError for missing ones.
Below it are the imports, the constants and the helpers that the cells' code names, and then that code itself:
the last definition of a name counts, in Python as for the judge. The place of a definition, and the import or
assignment of a name, are looked up in the cells that ran.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import contextlib
import inspect
import linecache
import math
import re
import symtable
import sys
import sysconfig
import textwrap
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from grader.course.syntax import syntax_tree
from grader.text import clean

_LONGEST_CONSTANT = 10_000
_DEEPEST_CONSTANT = 4
_FUTURE = "from __future__ import annotations\n"
# Values of these types are assigned by a statement, which is included instead of a constant.
_ALIASES = (typing.TypeVar, types.GenericAlias, types.UnionType, type(typing.Optional[int]))  # noqa: UP045 (its type is meant)
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class SourcePiece(msgspec.Struct, frozen=True):
    """A piece of source and its place: the cell (or file), and the first line."""

    text: str
    where: str
    line: int = 1


class Composed(msgspec.Struct, frozen=True):
    """The source of the file, the places of its lines, and notes about it."""

    source: bytes
    starts: tuple[tuple[int, SourcePiece], ...]
    notes: tuple[str, ...]

    def place(self, line: int) -> tuple[str, int]:
        """Return the place of a line of the file: the cell, and the line in it."""
        above = [(start, piece) for start, piece in self.starts if start <= line]
        start, piece = above[-1] if above else self.starts[0]
        return piece.where, piece.line + line - start


def compose(
    stub: str, pieces: Sequence[SourcePiece], *, notes: Sequence[str] = (), future: bool = False
) -> Composed:
    """Put the pieces below the stub; with `future`, annotations stay unevaluated."""
    if future and not future_imports(parsed(stub)):
        # It must be the first statement of a file.
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

    Names that the stub defines, including its imports, need not be found. `notes` lists names that were used
    but could not be included.
    """

    def __init__(self, namespace: Mapping[str, Any], stub: str) -> None:
        self.pieces: list[SourcePiece] = []
        self.notes: list[str] = []
        self._namespace, self._stub = namespace, stub
        self._given = _bound(symtable.symtable(stub, "<stub>", "exec"))
        self._cells = Cells(namespace)
        self._seen: set[str] = set()

    def composed(self) -> Composed:
        """Return the file of all pieces."""
        future = self._cells.annotations_unevaluated
        return compose(self._stub, self.pieces, notes=self.notes, future=future)

    def add_definition(self, value: type | types.FunctionType) -> bool:
        """Add a class or function of the notebook, after the names that it uses; False if it is not found."""
        if value.__name__ in self._seen:
            return True
        self._seen.add(value.__name__)
        if (piece := self._cells.definition(value)) is not None:
            self.add_piece(piece)
        if piece is not None and isinstance(value, type):
            self._add_patches(value)
        return piece is not None

    def add_value(self, name: str, value: Any) -> bool:
        """Add a lambda, a partial or an alias, without a `def` of its own; False if no source is found."""
        self._seen.add(name)
        pieces = self._cells.bindings(name, value)
        for piece in pieces:
            self.add_piece(piece)
        return bool(pieces)

    def _add_patches(self, owner: type) -> None:
        """Add attributes that were put on a class after its own cell, or note why they are not judged."""
        for patch in self._cells.patches(owner):
            if isinstance(patch, SourcePiece):
                self.add_piece(patch)
            else:
                self.notes.append(patch)

    def add_piece(self, piece: SourcePiece) -> None:
        """Add a piece of source, after the names that it uses."""
        for name in sorted(_names_needed(piece.text)):
            if name not in self._seen:
                self._add_name(name, piece)
        self.pieces.append(piece)

    def _add_name(self, name: str, user: SourcePiece) -> None:
        """Add the meaning of a name, or note why it was left behind."""
        value: Any = self._namespace.get(name)
        if getattr(value, "__name__", None) == name and _is_definition(value, self._namespace):
            if not self.add_definition(value):
                self._leave_out(name, user, "its source was not found")
            return
        self._seen.add(name)
        if name not in self._namespace:
            if name not in self._given:
                self.notes.append(f"{clean(name)} is used in {user.where} but not defined.")
        elif (statement := self._cells.import_of(name, value)) is not None:
            self.pieces.append(SourcePiece(statement, "an import"))
        elif _is_plain(value, _DEEPEST_CONSTANT) and len(_literal(value)) <= _LONGEST_CONSTANT:
            self.pieces.append(SourcePiece(f"{name} = {_literal(value)}", "a constant"))
        elif isinstance(value, _ALIASES) and (piece := self._cells.assignment_of(name)) is not None:
            self.add_piece(piece)
        elif not (callable(value) and self.add_value(name, value)):
            self._leave_out(name, user, f"it is a value of type {clean(type(value).__name__, 60)}")

    def _leave_out(self, name: str, user: SourcePiece, why: str) -> None:
        self.notes.append(
            f"{clean(name)} is used in {user.where}, but {why}, and was left out: a separate file would "
            "not have it either. Make it an argument, or a plain constant."
        )


def _is_definition(value: Any, namespace: Mapping[str, Any]) -> bool:
    """Return whether a value is a class or a function defined in this namespace."""
    is_one = isinstance(value, type | types.FunctionType) or hasattr(value, "__wrapped__")
    return is_one and getattr(value, "__module__", None) == namespace.get("__name__")


# --- names ----------------------------------------------------------------------------------------


def _names_needed(text: str) -> set[str]:
    """Return the global names that a piece of source uses and does not define."""
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
    """Return the names that a scope assigns, imports and defines."""
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
    """Return whether a value is small, and plain all through."""
    if isinstance(value, float) and not math.isfinite(value):
        return depth == _DEEPEST_CONSTANT
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return not isinstance(value, int | str | bytes) or sys.getsizeof(value) < _LONGEST_CONSTANT
    if depth == 0 or type(value) not in (list, tuple, set, frozenset, dict) or len(value) > 1000:
        return False
    parts = [*value, *value.values()] if type(value) is dict else list(value)
    return all(_is_plain(part, depth - 1) for part in parts)


def _literal(value: Any) -> str:
    if type(value) is float and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


# --- the cells that ran ----------------------------------------------------------------------------


class _Found(msgspec.Struct, frozen=True):
    """A definition or a lambda, and the source that contains it."""

    where: str
    text: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda

    def piece(self, *, decorated: bool = True) -> SourcePiece:
        """Return its lines, with its decorators or without them."""
        first = _first_line(self.node) if decorated else self.node.lineno
        lines = self.text.splitlines(keepends=True)[first - 1 : self.node.end_lineno]
        return SourcePiece(textwrap.dedent("".join(lines)), self.where, first)

    def source(self) -> str:
        """Return the text of a lambda."""
        return ast.get_source_segment(self.text, self.node) or ""


class _Written(msgspec.Struct, frozen=True):
    """The names that the body of a class defines, and which of them are methods."""

    names: frozenset[str]
    methods: frozenset[str]


def _made_in(node: ast.ClassDef) -> _Written:
    methods = {child.name for child in node.body if isinstance(child, _Definition)}
    names = {
        each.id
        for child in node.body
        if not isinstance(child, _Definition)
        for each in ast.walk(child)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    nested = {
        each.name
        for child in node.body
        if isinstance(child, ast.If | ast.Try | ast.With | ast.For)
        for each in ast.walk(child)
        if isinstance(each, _Definition)
    }
    return _Written(frozenset(names | nested | methods), frozenset(methods))


# The decorators of functions in a class that are not plain methods.
_KINDS = {staticmethod: "staticmethod", classmethod: "classmethod", property: "property"}


def _code_of(value: object) -> types.CodeType | None:
    """Return the code of a function, even of one in a decorator or a property; None for anything else."""
    function = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
    with contextlib.suppress(ValueError):
        function = inspect.unwrap(function) if callable(function) else function
    return function.__code__ if isinstance(function, types.FunctionType) else None


def same_code(left: types.CodeType, right: types.CodeType) -> bool:
    """Return whether two functions were compiled from the same statements at the same line of a source."""
    facts = ("co_name", "co_firstlineno", "co_code", "co_names", "co_varnames", "co_freevars")
    if any(getattr(left, fact) != getattr(right, fact) for fact in facts):
        return False
    if len(left.co_consts) != len(right.co_consts):
        return False
    return all(
        same_code(one, other)
        if isinstance(one, types.CodeType) and isinstance(other, types.CodeType)
        else type(one) is type(other) and repr(one) == repr(other)
        for one, other in zip(left.co_consts, right.co_consts, strict=True)
    )


def _file_of(code: types.CodeType) -> list[tuple[str, str, ast.Module]]:
    """Return the present content of a function's file; nothing for a cell or a library."""
    path = Path(code.co_filename)
    if _is_of_library(code) or not path.is_file():
        return []
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename))
    return [(path.name, text, parsed(text))]


def is_of_library(value: object) -> bool:
    """Return whether a class or function belongs to an installed package instead of the student."""
    code, module = _code_of(value), getattr(value, "__module__", None)
    if code is not None:
        return _is_of_library(code)
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    return module != "__main__" and (file is None or file.startswith(_LIBRARIES))


def _is_of_library(code: types.CodeType) -> bool:
    return code.co_filename.startswith(_LIBRARIES)


_LIBRARIES = tuple(
    {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def _wrapped_by(value: object, name: str) -> types.CodeType | None:
    """Return the code of the function of this name inside a decorator's value."""
    code = _code_of(value)
    if code is None or code.co_name == name:
        return code
    for cell in getattr(value, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            inner = _code_of(cell.cell_contents)
            if inner is not None and inner.co_name == name:
                return inner
    return None


def _imported(module: str, name: str) -> Any:
    """Return the value of an import, if its module is already imported."""
    if not module:
        return sys.modules.get(name)
    if module in sys.modules and hasattr(sys.modules[module], name):
        return getattr(sys.modules[module], name)
    return sys.modules.get(f"{module}.{name}")


def _same(found: Any, value: Any) -> bool:
    """Return whether an import gives this value: the same object, or one of the same name after a reload."""
    if found is value:
        return True
    names = [
        (getattr(v, "__module__", None), getattr(v, "__qualname__", None)) for v in (found, value)
    ]
    return type(found) is type(value) and None not in names[0] and names[0] == names[1]


def _not_judged(place: str, why: str) -> str:
    return (
        f"{clean(place)} was put on the class after its own cell and is not judged: {why}. Write it into the "
        "class, or define it with `def` at the top of a cell."
    )


class Cells:
    """The cells in IPython's namespace, the newest first; for a plain script, its file."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        cells, file = namespace.get("In"), str(namespace.get("__file__", ""))
        if isinstance(cells, list):
            texts = [(f"In[{number}]", str(cell)) for number, cell in enumerate(cells)]
        else:
            texts = [(file, "".join(linecache.getlines(file)))]
        self._cells = [(where, text, parsed(text)) for where, text in reversed(texts)]
        self._namespace = namespace
        self._compiled: dict[str, list[types.CodeType]] = {}
        # IPython keeps the flag for later cells.
        self.annotations_unevaluated = any(future_imports(tree) for _, _, tree in self._cells)

    def definition(self, value: type | types.FunctionType) -> SourcePiece | None:
        """Return the definition of this class or function, with its decorators; None if no cell made it."""
        if isinstance(value, type):
            found = self._class(value)
        else:
            found = self._function(inspect.unwrap(value).__code__)
        return found.piece() if found is not None else None

    def _function(self, code: types.CodeType) -> _Found | None:
        """Return where a function or a lambda was made: the newest source that compiles to its code."""
        for where, text, tree in (*self._cells, *_file_of(code)):
            if not any(same_code(each, code) for each in self._codes(text)):
                continue
            nodes = [
                node
                for node in ast.walk(tree)
                if (isinstance(node, ast.Lambda) and code.co_name == "<lambda>")
                or (isinstance(node, _Definition) and node.name == code.co_name)
                if _first_line(node) == code.co_firstlineno
            ]
            # If two lambdas are on one line, we cannot tell which one it is.
            if len(nodes) == 1:
                return _Found(where, text, nodes[0])
        return None

    def _class(self, value: type) -> _Found | None:
        """Return the newest definition of a class with its methods, or if it has none, of its name."""
        files = [_file_of(code) for code in map(_code_of, vars(value).values()) if code is not None]
        texts = [*self._cells, *(text for file in files for text in file)]
        best, most = None, -1
        for where, text, tree in texts:
            # In one cell, the last definition counts; but one at the top comes before one in a function.
            nodes = [
                node
                for node in ast.walk(tree)
                if isinstance(node, ast.ClassDef) and node.name == value.__name__
            ]
            for node in sorted(nodes, key=lambda n: (n in tree.body, n.lineno), reverse=True):
                found = _Found(where, text, node)
                count = sum(self._is_as_written(found, *item) for item in vars(value).items())
                if count > most:
                    best, most = found, count
        own = f"{value.__qualname__}."
        codes = [code for code in map(_code_of, vars(value).values()) if code is not None]
        has_own = any(getattr(code, "co_qualname", "").startswith(own) for code in codes)
        return None if has_own and most < 1 and not self._is_generated(codes) else best

    def _is_generated(self, codes: Iterable[types.CodeType]) -> bool:
        """Return whether all of these were made by a decorator, as for a dataclass, and not in a cell."""
        return not any(self._function(code) for code in codes)

    def _is_as_written(self, found: _Found, name: str, attribute: object) -> bool:
        """Return whether an attribute of a class is the function that this definition gives this name."""
        # The method's own decorator may have wrapped another function around it.
        code = _wrapped_by(attribute, name) or _code_of(attribute)
        if code is None or not isinstance(found.node, ast.ClassDef):
            return False
        lines = range(found.node.lineno, (found.node.end_lineno or found.node.lineno) + 1)
        is_named = code.co_name == name or name in _made_in(found.node).names
        return (
            is_named
            and code.co_firstlineno in lines
            and any(same_code(each, code) for each in self._codes(found.text))
        )

    def patches(self, owner: type) -> Iterator[SourcePiece | str]:
        """Yield attributes of a class that were added later: as source, or why they are not judged."""
        found = self._class(owner)
        assert found is not None and isinstance(found.node, ast.ClassDef)
        written = _made_in(found.node)
        for base in owner.__bases__:
            now = self._namespace.get(base.__name__, base)
            if base.__module__ == self._namespace.get("__name__") and now is not base:
                yield (
                    f"{owner.__name__} was made from an older {base.__name__} than the one that is judged: "
                    "run its cell again."
                )
        for name, attribute in list(vars(owner).items()):
            place = f"{owner.__name__}.{name}"
            code = _code_of(attribute)
            if code is None:
                is_new = name not in written.names and not name.startswith("_")
                if is_new and _is_plain(attribute, _DEEPEST_CONSTANT):
                    yield SourcePiece(f"{place} = {_literal(attribute)}", "a constant of a class")
                elif is_new and not isinstance(attribute, type | types.GetSetDescriptorType):
                    kind = clean(type(attribute).__name__, 60)
                    yield _not_judged(place, f"it is a value of type {kind}")
            elif not self._is_as_written(found, name, attribute):
                made = self._function(code)
                if made is not None and not code.co_freevars:
                    yield self._patch(owner, name, attribute, made)
                elif made is not None:
                    yield _not_judged(place, "it keeps values of the function that made it")
                elif name in written.names or not (
                    name.startswith("__")
                    or _is_of_library(code)
                    or code.co_filename.startswith("<string>")
                ):
                    yield _not_judged(place, "the source that defines it was not found")
        for name in written.methods - set(vars(owner)):
            yield SourcePiece(f"del {owner.__name__}.{name}", "a cell")

    def _patch(self, owner: type, name: str, attribute: object, made: _Found) -> SourcePiece:
        """Return the source of a function, and the statement that puts it on a class."""
        place, kind = f"{owner.__name__}.{name}", _KINDS.get(type(attribute), "")
        if isinstance(made.node, ast.Lambda):
            return SourcePiece(f"{place} = {kind}({made.source()})", made.where, made.node.lineno)
        function = getattr(attribute, "__func__", None) or getattr(attribute, "fget", None)
        function = function or attribute
        wrapped = hasattr(function, "__wrapped__")
        if wrapped and any(
            isinstance(n, ast.Name) and n.id == owner.__name__
            for decorator in made.node.decorator_list
            for n in ast.walk(decorator)
        ):
            return made.piece()  # its decorators put it there
        piece = made.piece(decorated=wrapped)
        own, text = made.node.name, piece.text
        other = self._namespace.get(own)
        if not wrapped and callable(other) and other is not function:
            # The name belongs to another function: define this one under a new name.
            own = f"_{owner.__name__}_{name}"
            text = re.sub(r"\bdef\s+\w+", f"def {own}", text, count=1)
        return msgspec.structs.replace(piece, text=f"{text.rstrip()}\n{place} = {kind}({own})\n")

    def bindings(self, name: str, value: Any) -> list[SourcePiece]:
        """Return the source that makes the value of this name, if not a `def`; empty if it is not found."""
        original = _wrapped_by(value, name)
        made = self._function(original) if original is not None else None
        before = [made.piece()] if made is not None else []
        if made is not None and getattr(made.node, "decorator_list", None):
            return before  # the result of its decorators
        for where, text, tree in self._cells:
            for node in reversed(list(ast.walk(tree))):
                if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                    continue
                if getattr(node.targets[0], "id", None) != name:
                    continue
                segment = ast.get_source_segment(text, node) or ""
                piece = SourcePiece(textwrap.dedent(segment), where, node.lineno)
                match node.value:
                    case ast.Lambda():
                        code = _code_of(value)
                        found = self._function(code) if code and not code.co_freevars else None
                        return [piece] if found is not None and found.text == text else []
                    case ast.Call():
                        uses = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
                        # Repeat a call only if its arguments are functions.
                        made_of = [self._resolved(argument) for argument in node.value.args]
                        is_made = before or (any(map(callable, made_of)) and name not in uses)
                        return [*before, piece] if is_made else []
                    case _:
                        is_it = self._resolved(node.value) is value
                        return [piece] if is_it else []
        return []

    def _resolved(self, node: ast.expr) -> Any:
        """Return the current value of a dotted name; the node itself if it is not one."""
        if isinstance(node, ast.Name):
            return self._namespace.get(node.id, node)
        if isinstance(node, ast.Attribute):
            owner = self._resolved(node.value)
            return inspect.getattr_static(owner, node.attr, node)
        return node

    def _codes(self, text: str) -> list[types.CodeType]:
        """Return all functions, lambdas and class bodies that a source compiles to."""
        if text not in self._compiled:
            found: list[types.CodeType] = []
            for future in (0, __future__.annotations.compiler_flag):
                with contextlib.suppress(SyntaxError, ValueError):
                    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | future
                    waiting = [compile(text, "<cell>", "exec", flags, dont_inherit=True)]
                    while waiting:
                        code = waiting.pop()
                        found.append(code)
                        waiting += [c for c in code.co_consts if isinstance(c, types.CodeType)]
            self._compiled[text] = found
        return self._compiled[text]

    def import_of(self, name: str, value: Any) -> str | None:
        """Return the newest import that gives this name this value; also imports of a package's modules."""
        of_package: set[str] = set()
        for node, alias in self._imports():
            statement, module = ast.unparse(node), getattr(node, "module", None) or ""
            if isinstance(node, ast.Import) and alias.asname is None:
                if alias.name.partition(".")[0] == name and sys.modules.get(name) is value:
                    of_package.add(statement)
            elif (alias.asname or alias.name) == name:
                if _same(_imported(module, alias.name), value):
                    return statement
            elif alias.name == "*" and _same(_imported(module, name), value):
                return f"from {module} import {name}"
        return "\n".join(sorted(of_package)) or None

    def assignment_of(self, name: str) -> SourcePiece | None:
        """Return the newest statement at the top of a cell that assigns only to this name."""
        for where, text, tree in self._cells:
            for node in reversed(tree.body):
                targets = node.targets if isinstance(node, ast.Assign) else []
                if isinstance(node, ast.AnnAssign) and node.value is not None:
                    targets = [node.target]
                if [getattr(target, "id", None) for target in targets] == [name]:
                    return SourcePiece(ast.get_source_segment(text, node) or "", where, node.lineno)
        return None

    def _imports(self) -> Iterator[tuple[ast.Import | ast.ImportFrom, ast.alias]]:
        """Yield every import of one name, as a statement of its own."""
        for _, _, tree in self._cells:
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    yield from ((ast.Import([alias]), alias) for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    for alias in node.names:
                        yield ast.ImportFrom(node.module, [alias], 0), alias


def future_imports(tree: ast.Module) -> list[ast.ImportFrom]:
    """Return the statements `from __future__ import ...` of a cell or a file."""
    return [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]


def parsed(text: str) -> ast.Module:
    """Return the syntax tree of a cell or a file; an empty one if it is not Python, and so never ran."""
    try:
        return syntax_tree(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def blanked(text: str, nodes: Iterable[ast.stmt]) -> str:
    """Return the text with these statements blanked, so that other lines keep their numbers."""
    lines = text.split("\n")
    for node in nodes:
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            lines[number - 1] = ""
    return "\n".join(lines)


def _first_line(node: ast.stmt | ast.expr) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
