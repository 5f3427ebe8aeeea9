"""Code that earns nothing, found without running it: only comments, or parts of the stub that nobody wrote.

No verdict depends on this. A file that takes long to parse is never such a file.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from grader.submissions.source import Definition, definitions, parse, quick_tree

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_BEGINS_CODE = re.compile(rb"^(?:async |class |def |from |import |@)", re.MULTILINE)


class _Functions(NamedTuple):
    """The code of a stub's functions, by qualified name: those to write, and those that are given."""

    to_write: Mapping[str, str]
    given: Mapping[str, str]


def has_no_code(source: bytes) -> bool:
    """Whether a file has only white space, comments and strings."""
    # Most files need no parsing to see that.
    if _BEGINS_CODE.search(source) or (tree := quick_tree(source)) is None:
        return False
    return all(isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) for n in tree.body)


def names_to_write(source: bytes, stub: bytes) -> tuple[str, ...]:
    """Return the top-level names that the stub leaves to write, if the file defines none of them.

    Returns nothing for a file that imports all names of a module.
    """
    names = {name.partition(".")[0] for name in _functions_of(stub).to_write}
    if any(
        re.search(rf"^(?:async )?(?:def|class) {name}\b".encode(), source, re.M) for name in names
    ):
        return ()  # most files need no parsing
    if not names or (tree := quick_tree(source)) is None:
        return ()
    nodes: list[ast.AST] = [*tree.body]
    while nodes:
        node = nodes.pop()
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                bound = name
            case ast.alias():
                bound = (node.asname or node.name).partition(".")[0]
            case ast.Name(id=name, ctx=ast.Store()):
                bound = name
            case _:
                bound = ""
        if bound in names or bound == "*":
            return ()
        if not isinstance(node, Definition | ast.Lambda):
            nodes += ast.iter_child_nodes(node)
    return tuple(sorted(names))


def written_but_raising(source: bytes, stub: bytes) -> tuple[str, ...]:
    """Return the functions with new code that still raise the stub's NotImplementedError.

    Returns nothing if another function of the stub was changed, since that one may run.
    """
    to_write, given = _functions_of(stub)
    if not to_write or b"NotImplementedError" not in source:
        return ()
    if (tree := quick_tree(source)) is None:
        return ()
    before = {**given, **to_write}
    try:
        functions = _functions(tree)
        changed = [n for n in before if n in functions and _code(functions[n]) != before[n]]
        if not changed:
            # The stub's definition may replace another one above it.
            known = {*before.values()}
            changed = [n for n in to_write if n in functions and _is_written(n, tree, known)]
    # A literal with thousands of digits can be parsed, but not written.
    except (RecursionError, ValueError):
        return ()
    return tuple(changed) if all(_is_to_write(functions[name]) for name in changed) else ()


@functools.lru_cache(maxsize=1000)
def _functions_of(stub: bytes) -> _Functions:
    try:
        functions = _functions(parse(stub))
    except SyntaxError:
        return _Functions({}, {})
    to_write = {name: _code(node) for name, node in functions.items() if _is_to_write(node)}
    given = {name: _code(node) for name, node in functions.items() if name not in to_write}
    return _Functions(to_write, given)


def _functions(tree: ast.Module) -> dict[str, _Function]:
    """Return the functions and methods by their qualified names."""
    return {
        name: node for name, node in definitions(tree).items() if not isinstance(node, ast.ClassDef)
    }


def _is_written(name: str, tree: ast.Module, known: Collection[str]) -> bool:
    """Whether any function of this name has other code than the `known` functions."""
    named = (n for n in ast.walk(tree) if isinstance(n, _Function) and n.name == name)
    return any(_code(node) not in known for node in named)


def _code(node: _Function) -> str:
    """Return the statements of a function, without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return ast.dump(ast.Module(body, []))


def _is_to_write(node: _Function) -> bool:
    """Whether a function raises NotImplementedError, as a stub does."""
    raised = (each.exc for each in ast.walk(node) if isinstance(each, ast.Raise))
    types = (exc.func if isinstance(exc, ast.Call) else exc for exc in raised)
    return any(isinstance(each, ast.Name) and each.id == "NotImplementedError" for each in types)
