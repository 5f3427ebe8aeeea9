"""Dead code: what has no effect in a file is dropped from its syntax tree before files are compared."""

from __future__ import annotations

import ast
from collections.abc import Set

from grader.gradebook.similarity.statements import (
    DEFINITIONS,
    FUNCTIONS,
    INNER,
    bodies,
    loads_in,
    scopes,
    statements,
)

# Calls of these as a statement leave nothing behind, but for what is printed.
_WITHOUT_EFFECT = frozenset(
    (
        *("abs", "bool", "bytes", "dict", "float", "hash", "id", "int", "isinstance", "len", "max"),
        *("min", "print", "range", "repr", "round", "set", "str", "sum", "tuple", "type"),
    )
)
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
# Dead code that only dead code needs goes in the next pass.
_MOST_PASSES = 8


class DeadCode:
    """What has no effect in a tree; names are looked at function by function, with what stands inside of it."""

    def __init__(self, tree: ast.Module, given: Set[str]) -> None:
        self._tree, self._given = tree, given
        self._known_loads: dict[ast.AST, frozenset[str]] = {}

    def drop(self) -> None:
        """Drop it from the tree."""
        for _ in range(_MOST_PASSES):
            before = sum(1 for _ in statements(self._tree))
            used = set(self._given).union(*(self._loads(node) for node in statements(self._tree)))
            body = _reached(self._tree.body)
            self._tree.body = [
                s for s in body if not (isinstance(s, DEFINITIONS) and s.name not in used)
            ]
            self._sweep([self._tree], used)
            for scope in scopes(self._tree):
                self._sweep(list(statements(scope)), self._live_names(scope))
            if sum(1 for _ in statements(self._tree)) == before:
                return

    def _sweep(self, nodes: list[ast.AST], live: Set[str]) -> None:
        for node in reversed(nodes):
            for body in bodies(node):
                body[:] = [s for s in _reached(body) if not _has_no_effect(s, live)]

    def _live_names(self, scope: ast.AST) -> set[str]:
        """Names of which something else than an assignment to an unread name depends."""
        reads_of: dict[str, list[Set[str]]] = {}
        waiting: list[Set[str]] = []
        for node in statements(scope):
            targets = _assigned(node)
            if targets is None:
                waiting.append(self._loads(node))
            for target in targets or ():
                reads_of.setdefault(target, []).append(self._loads(node))
            if isinstance(node, ast.Global | ast.Nonlocal):
                waiting.append(set(node.names))
        live: set[str] = set()
        while waiting:
            for name in waiting.pop() - live:
                live.add(name)
                waiting += reads_of.pop(name, ())
        return live

    def _loads(self, statement: ast.AST) -> frozenset[str]:
        """Names and attributes that are read in a statement, but not in the statements inside it."""
        if statement not in self._known_loads:
            loads: set[str] = set()
            for child in ast.iter_child_nodes(statement):
                if not isinstance(child, INNER):
                    loads |= loads_in(child)
            self._known_loads[statement] = frozenset(loads)
        return self._known_loads[statement]


def _assigned(statement: ast.AST) -> list[str] | None:
    """The names that an assignment binds; None for another statement, or one that binds more than names."""
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
        targets = [statement.target]
    else:
        return None
    names = [n for t in targets for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
    if not all(isinstance(name, ast.Name) for name in names):
        return None
    return [name.id for name in names if isinstance(name, ast.Name)]


def _has_no_effect(statement: ast.stmt, live: Set[str]) -> bool:
    if isinstance(statement, ast.Pass | ast.Import | ast.ImportFrom):
        return True
    if isinstance(statement, ast.Expr):
        return _is_idle(statement.value)
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return True
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Constant)
    if isinstance(statement, ast.Delete):
        return all(isinstance(target, ast.Name) for target in statement.targets)
    if isinstance(statement, FUNCTIONS):
        return False
    if isinstance(statement, ast.For | ast.While | ast.With | ast.If):
        return not any(bodies(statement))
    targets = _assigned(statement)
    return targets is not None and live.isdisjoint(targets)


def _is_idle(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        called = value.func
        return isinstance(called, ast.Name) and called.id in _WITHOUT_EFFECT
    busy = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    return not any(isinstance(node, busy) for node in ast.walk(value))


def _reached(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements up to the first that leaves the body, without branches that are never taken."""
    reached: list[ast.stmt] = []
    for statement in body:
        reached += _taken(statement)
        if reached and isinstance(reached[-1], _ENDS):
            break
    return reached


def _taken(statement: ast.stmt) -> list[ast.stmt]:
    if isinstance(statement, ast.If | ast.While) and isinstance(statement.test, ast.Constant):
        if isinstance(statement, ast.If):
            return _reached(statement.body if statement.test.value else statement.orelse)
        return [statement] if statement.test.value else []
    if isinstance(statement, ast.For) and _is_empty(statement.iter):
        return []
    if isinstance(statement, ast.If) and statement.orelse and statement.body:
        if isinstance(statement.body[-1], _ENDS):
            # Else after return: what follows is the else.
            rest, statement.orelse = statement.orelse, []
            return [statement, *_reached(rest)]
        if isinstance(statement.test, ast.UnaryOp) and isinstance(statement.test.op, ast.Not):
            statement.test = statement.test.operand
            statement.body, statement.orelse = statement.orelse, statement.body
    return [statement]


def _is_empty(value: ast.expr) -> bool:
    return isinstance(value, ast.Tuple | ast.List | ast.Set) and not value.elts
