"""Walking over the statements of a syntax tree, with no recursion into what is nested deeply."""

from __future__ import annotations

import ast
from collections.abc import Iterator

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
# Statements, and what stands between a statement and the statements inside it.
INNER = (ast.stmt, ast.ExceptHandler, ast.match_case)
_BODIES = ("body", "orelse", "finalbody")


def statements(scope: ast.AST) -> Iterator[ast.AST]:
    """A scope and all statements in it, each before those that it holds."""
    waiting = [scope]
    while waiting:
        node = waiting.pop()
        yield node
        for field in (*_BODIES, "handlers", "cases"):
            inside = getattr(node, field, None)
            # The body of a lambda or of a conditional expression is no list.
            waiting += inside if isinstance(inside, list) else ()


def bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements that a statement holds."""
    for field in _BODIES:
        body = getattr(node, field, None)
        if isinstance(body, list) and body:
            yield body


def loads_in(node: ast.AST) -> set[str]:
    """Names that are read in a node, and attributes, by which methods are called."""
    loads: set[str] = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Store):
            loads.add(child.id)
        elif isinstance(child, ast.Attribute):
            loads.add(child.attr)
    return loads


def scopes(tree: ast.Module) -> Iterator[ast.AST]:
    """Functions that stand in no other function."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, FUNCTIONS):
                yield child
            elif isinstance(child, ast.stmt):
                waiting.append(child)
