"""Values and small functions that are used once, put in the place where they are used."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Set

from grader.gradebook.similarity.statements import INNER, bodies, statements

# So many values are put into each other at most: the tree stays flat enough to be written.
_LONGEST_CHAIN = 20


class _Substitution(ast.NodeTransformer):
    def __init__(self, values: dict[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:  # as inherited
        return self._values.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def inline_functions(tree: ast.Module, given: Set[str]) -> None:
    """Put the expression of a function that is called once, and is no more than it, in place of the call."""
    read = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
    small = {
        f.name: f
        for f in tree.body
        if isinstance(f, ast.FunctionDef)
        and f.name not in given
        and read[f.name] == 1
        and not f.decorator_list
        and len(f.body) == 1
        and isinstance(f.body[0], ast.Return)
        and f.body[0].value is not None
    }
    if small:
        inliner = _Inliner(small)
        inliner.visit(tree)
        tree.body = [s for s in tree.body if getattr(s, "name", "") not in inliner.done]


class _Inliner(ast.NodeTransformer):
    def __init__(self, functions: dict[str, ast.FunctionDef]) -> None:
        self._functions, self.done = functions, set[str]()

    def visit_Call(self, node: ast.Call) -> ast.expr:  # as inherited
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        function = self._functions.get(name)
        if function is None or node.keywords or name in self.done:
            return node
        parameters = [a.arg for a in function.args.args]
        if len(parameters) != len(node.args) or function.args.kwonlyargs or function.args.vararg:
            return node
        self.done.add(name)
        returned = function.body[0]
        assert isinstance(returned, ast.Return) and returned.value is not None
        values = dict(zip(parameters, node.args, strict=True))
        inlined: ast.expr = _Substitution(values).visit(returned.value)
        return inlined


def inline_values(function: ast.AST) -> None:
    """Put a value that is named once and used once, in the next statement, in place of the name."""
    stores, loads = Counter[str](), Counter[str]()
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            (loads if isinstance(node.ctx, ast.Load) else stores)[node.id] += 1
    for node in statements(function):
        for body in bodies(node):
            kept: list[ast.stmt] = []
            chain = 0
            for statement in body:
                before = kept[-1] if kept else None
                name = _single(before, stores, loads)
                if (
                    isinstance(before, ast.Assign)
                    and name in _read_first(statement)
                    and chain < _LONGEST_CHAIN
                ):
                    kept.pop()
                    _Substitution({name: before.value}).visit(statement)
                    chain += 1
                else:
                    chain = 0
                kept.append(statement)
            body[:] = kept


def _single(statement: ast.stmt | None, stores: Counter[str], loads: Counter[str]) -> str:
    """The name that this assignment alone binds, and that is read once; "" for another statement."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target = statement.targets[0]
    name = target.id if isinstance(target, ast.Name) else ""
    return name if stores[name] == loads[name] == 1 else ""


def _read_first(statement: ast.stmt) -> set[str]:
    """The names in what a statement evaluates once, before the statements inside it."""
    if isinstance(statement, ast.While | ast.ClassDef | ast.Try | ast.Match | ast.FunctionDef):
        return set()
    inner = (child for child in ast.iter_child_nodes(statement) if not isinstance(child, INNER))
    return {n.id for child in inner for n in ast.walk(child) if isinstance(n, ast.Name)}
