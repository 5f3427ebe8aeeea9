"""Answers without work: a stub whose functions return nothing, or their first argument."""

from __future__ import annotations

import ast

from grader.course.syntax import syntax_tree

# FIRST is the first argument of each function.
BODIES = {"returns None": "return None", "returns its first argument": "return FIRST"}


def junk_of(stub: bytes) -> dict[str, bytes]:
    """Return the stub with each of the BODIES in its unwritten parts, by the effect of the body."""
    tree = syntax_tree(stub)
    if not is_unwritten(tree):
        return {}
    return {
        does: ast.unparse(filled(syntax_tree(stub), body)).encode() for does, body in BODIES.items()
    }


def filled(tree: ast.Module, body: str) -> ast.Module:
    """Replace each `raise NotImplementedError` of a function by `body`, in the tree itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = [
                new
                for old in node.body
                for new in (_filling(node, body) if _raises(old) else [old])
            ]
    return tree


def is_unwritten(node: ast.AST) -> bool:
    """Whether there is a `raise NotImplementedError` in it."""
    return any(_raises(each) for each in ast.walk(node))


def _raises(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) and "NotImplementedError" in ast.unparse(node)


def _filling(function: ast.FunctionDef, body: str) -> list[ast.stmt]:
    # `__init__` must return None.
    body = "return" if function.name == "__init__" and "return" in body else body
    names = [argument.arg for argument in function.args.args]
    first = next((name for name in names if name not in ("self", "ctx")), [*names, "None"][0])
    return syntax_tree(body.replace("FIRST", first)).body
