"""The normal form of a file, for `fingerprints`: the tokens of its syntax tree in a canonical form.

Comments, docstrings, annotations, imports and `pass` are left out. Equivalent code has the same form:
`torch.exp(x)` and `x.exp()`, `a * b` and `b * a`, `a > b` and `b < a`, `x += 1` and `x = x + 1`. Names of the
student's own choice read the same, and so do numbers and strings.

The result is only compared and never runs. Rewriting may change its behavior (for example, an addition of
lists), but changes both files alike.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
from collections.abc import Iterator, Set

import msgspec

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Statements, and the nodes between a statement and the statements inside it.
_INNER = (ast.stmt, ast.ExceptHandler, ast.match_case)
_BUILTINS = frozenset(dir(builtins))
_COMMUTATIVE = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)
_TURNED = {ast.Gt: "Lt", ast.GtE: "LtE"}
_SYMMETRIC = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)
_NEGATED = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
# Methods and functions that are operators, too.
_OPERATORS = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mult",
    "multiply": "Mult",
    "div": "Div",
    "true_divide": "Div",
    "matmul": "MatMult",
    "mm": "MatMult",
    "pow": "Pow",
}
_SAME_NAME = {"t": "T", "mT": "T", "absolute": "abs", "concatenate": "cat", "concat": "cat"}


class Token(msgspec.Struct, frozen=True):
    """One token, and the first and last line of the statement that it is from."""

    text: str
    first: int
    last: int


def names_in(tree: ast.AST) -> frozenset[str]:
    """Return the names of functions, classes and attributes in a tree, such as a stub's."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
    return frozenset(names)


def tokens_of(tree: ast.Module, given: Set[str]) -> list[Token]:
    """Return the tokens of a file; `given` are names in the stub."""
    return list(_Writer(_imports(tree), given).body(tree.body))


def _imports(tree: ast.Module) -> dict[str, str]:
    """Map each imported name to its original name, or to "" for a module."""
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {(a.asname or a.name).split(".")[0]: "" for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                is_module = alias.name in ("nn", "functional", "optim", "func", "autograd")
                imported[alias.asname or alias.name] = "" if is_module else alias.name
    return imported


def _is_silent(statement: ast.AST) -> bool:
    """Whether a statement is left out: an import, a docstring, an annotation without a value, `pass`."""
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.AnnAssign(value=None):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
    return False


class _Writer:
    """A writer of trees as tokens in prefix order."""

    def __init__(self, imported: dict[str, str], given: Set[str]) -> None:
        self._imported, self._given = imported, given

    def body(self, body: list[ast.stmt]) -> Iterator[Token]:
        for statement in body:
            # Skip a statement that is nested deeper than any solution, but not its neighbors.
            with contextlib.suppress(RecursionError):
                yield from list(self._statement(statement))

    def _statement(self, node: ast.AST) -> Iterator[Token]:
        """Yield the tokens of a statement and of the statements inside it, each with its statement's lines."""
        if _is_silent(node):
            return
        words = list(self._header(node))
        first = getattr(node, "lineno", 1)
        if any(isinstance(child, _INNER) for child in ast.iter_child_nodes(node)):
            own = [c for c in ast.iter_child_nodes(node) if not isinstance(c, _INNER)]
            last = max([first, *(getattr(c, "end_lineno", first) or first for c in own)])
        else:
            last = getattr(node, "end_lineno", first) or first
        for word in words:
            yield Token(word, first, max(first, last))
        for field in ("body", "handlers", "cases", "orelse", "finalbody"):
            inside = getattr(node, field, None)
            if isinstance(inside, list) and not isinstance(node, ast.expr):
                if inside and field == "orelse":
                    yield Token("else", first, first)
                for statement in inside:
                    yield from self._statement(statement)

    def _header(self, node: ast.AST) -> list[str]:
        """Return the words of a statement without the statements inside it."""
        if isinstance(node, ast.Assign):
            return ["=", *self._all(node.targets), *self._of(node.value)]
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return ["=", *self._of(node.target), *self._of(node.value)]
        if isinstance(node, ast.AugAssign):
            value = ast.BinOp(node.target, node.op, node.value)
            return ["=", *self._of(node.target), *self._of(value)]
        if isinstance(node, _FUNCTIONS):
            defaults = [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
            name = node.name if node.name in self._given else "name"
            return ["def", name, *self._all(node.decorator_list), *self._all(defaults)]
        if isinstance(node, ast.ClassDef):
            name = node.name if node.name in self._given else "name"
            return ["class", name, *self._all(node.decorator_list), *self._all(node.bases)]
        if isinstance(node, ast.Raise):
            # Leave out the text of an exception, which is prose.
            kind = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            return ["Raise", *(self._of(kind) if kind is not None else [])]
        if isinstance(node, ast.Expr):
            return self._of(node.value)
        words = [] if isinstance(node, ast.expr) else [type(node).__name__]
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, _INNER):
                words += self._of(child)
        return words

    def _all(self, nodes: list[ast.expr]) -> list[str]:
        return [word for node in nodes for word in self._of(node)]

    def _of(self, node: ast.AST) -> list[str]:
        """Return the words of an expression: by the method for its kind, else its kind and its parts."""
        writer = getattr(self, f"_{type(node).__name__}", None)
        if writer is not None:
            words: list[str] = writer(node)
            return words
        words = [] if isinstance(node, ast.expr_context) else [type(node).__name__]
        for child in ast.iter_child_nodes(node):
            words += self._of(child)
        return words

    def _Name(self, node: ast.Name) -> list[str]:  # noqa: N802  # as in ast.NodeVisitor
        if node.id in self._imported:
            return [self._imported[node.id] or "module"]
        return [node.id if node.id in _BUILTINS or node.id in self._given else "name"]

    def _Constant(self, node: ast.Constant) -> list[str]:  # noqa: N802
        value = node.value
        if value is None or isinstance(value, bool) or value is Ellipsis:
            return [str(value)]
        return ['"' if isinstance(value, str | bytes) else "0"]

    def _JoinedStr(self, _: ast.JoinedStr) -> list[str]:  # noqa: N802
        return ['"']

    def _Attribute(self, node: ast.Attribute) -> list[str]:  # noqa: N802
        attribute = _SAME_NAME.get(node.attr, node.attr)
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            return ["self", attribute if attribute in self._given else "name"]
        if self._is_module(node.value):
            return [attribute]
        return [attribute, *self._of(node.value)]

    def _is_module(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and self._imported.get(node.id) == ""

    def _Call(self, node: ast.Call) -> list[str]:  # noqa: N802
        """Write a call; a method reads like the function of the same name, and `x.mul(y)` like `x * y`."""
        called, arguments = node.func, [self._of(a) for a in node.args]
        if isinstance(called, ast.Attribute):
            name = _SAME_NAME.get(called.attr, called.attr)
            is_own = isinstance(called.value, ast.Name) and called.value.id in ("self", "cls")
            if is_own:
                name = name if name in self._given else "name"
            if is_own or not self._is_module(called.value):
                arguments.insert(0, self._of(called.value))
            if name == "T" and len(arguments) == 1 and not node.keywords:
                return ["T", *arguments[0]]
            if name in _OPERATORS and len(arguments) == 2 and not node.keywords:
                return self._operation(_OPERATORS[name], arguments)
            head = ["()", name]
        else:
            head = ["()", *self._of(called)]
        keywords = sorted([k.arg or "**", *self._of(k.value)] for k in node.keywords)
        return head + [word for words in (*arguments, *keywords) for word in words]

    def _BinOp(self, node: ast.BinOp) -> list[str]:  # noqa: N802
        """Write an operation; the operands of a commutative chain, such as `a + b + c`, are sorted."""
        kind, operands, rest = type(node.op), list[ast.expr](), node.left
        operands.append(node.right)
        while kind in _COMMUTATIVE and isinstance(rest, ast.BinOp) and type(rest.op) is kind:
            operands.append(rest.right)
            rest = rest.left
        operands.append(rest)
        return self._operation(kind.__name__, [self._of(o) for o in reversed(operands)])

    def _operation(self, operator: str, operands: list[list[str]]) -> list[str]:
        if operator in {kind.__name__ for kind in _COMMUTATIVE}:
            operands = sorted(operands)
        return [operator] * (len(operands) - 1) + [w for words in operands for w in words]

    def _BoolOp(self, node: ast.BoolOp) -> list[str]:  # noqa: N802
        operands = sorted(self._of(value) for value in node.values)
        return [type(node.op).__name__] + [word for words in operands for word in words]

    def _UnaryOp(self, node: ast.UnaryOp) -> list[str]:  # noqa: N802
        inner = node.operand
        if isinstance(node.op, ast.Not) and isinstance(inner, ast.Compare):
            negated = _NEGATED.get(type(inner.ops[0])) if len(inner.ops) == 1 else None
            if negated is not None:
                return self._of(ast.Compare(inner.left, [negated()], inner.comparators))
        return [type(node.op).__name__, *self._of(inner)]

    def _Compare(self, node: ast.Compare) -> list[str]:  # noqa: N802
        """Write a comparison: `a > b` reads like `b < a`, and the sides of `==` are sorted."""
        sides = [self._of(side) for side in (node.left, *node.comparators)]
        kinds = [type(op) for op in node.ops]
        names = [kind.__name__ for kind in kinds]
        if len(kinds) == 1 and kinds[0] in _TURNED:
            names, sides = [_TURNED[kinds[0]]], sides[::-1]
        elif len(kinds) == 1 and kinds[0] in _SYMMETRIC:
            sides.sort()
        return names + [word for side in sides for word in side]
