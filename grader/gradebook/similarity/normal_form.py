"""What of a file is compared: its syntax tree without dead code and in one way of writing it, read as tokens.

Two files that do the same steps should read the same. So dropped are comments, docstrings, annotations,
imports, statements that are never reached, assignments that are never read, expressions without effect and
functions that nobody calls. One way of writing stands for several: `torch.exp(x)` and `x.exp()`, `a * b` and
`b * a`, `a > b` and `b < a`, `x += 1` and `x = x + 1`, a value named once and used once and the value in its
place, a function of one expression that is called once and the expression.

The result is for comparing and never runs: where a rewriting could change what code does (an addition of
lists), both files are changed alike.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
from collections import Counter
from collections.abc import Iterator, Set

import msgspec

_BUILTINS = frozenset(dir(builtins))
# Calls of these as a statement leave nothing behind, but for what is printed.
_WITHOUT_EFFECT = frozenset(
    (
        *("abs", "bool", "bytes", "dict", "float", "hash", "id", "int", "isinstance", "len", "max"),
        *("min", "print", "range", "repr", "round", "set", "str", "sum", "tuple", "type"),
    )
)
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
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)
# Statements, and what stands between a statement and the statements inside it.
_INNER = (ast.stmt, ast.ExceptHandler, ast.match_case)
_BODIES = ("body", "orelse", "finalbody")
# Dead code that only dead code needs goes in the next pass.
_MOST_PASSES = 8
# So many values are put into each other at most: the tree stays flat enough to be written.
_LONGEST_CHAIN = 20


class Token(msgspec.Struct, frozen=True):
    """One token, and the first and last line of the statement that it is from."""

    text: str
    first: int
    last: int


def names_in(tree: ast.AST) -> frozenset[str]:
    """The names of functions, classes and attributes of a tree: those of a stub are not the students' own."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS):
            names.add(node.name)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
    return frozenset(names)


def tokens_of(tree: ast.Module, given: Set[str]) -> list[Token]:
    """The tokens of a file, whose tree is changed; `given` are names that the stub has."""
    imported = _imports(tree)
    _DeadCode(tree, given).drop()
    with contextlib.suppress(RecursionError):
        _inline_functions(tree, given)
    for function in _scopes(tree):
        with contextlib.suppress(RecursionError):
            _inline_values(function)
    return list(_Writer(imported, given).body(tree.body))


# --- dead code --------------------------------------------------------------------------------------


class _DeadCode:
    """What has no effect in a tree; names are looked at function by function, with what stands inside of it."""

    def __init__(self, tree: ast.Module, given: Set[str]) -> None:
        self._tree, self._given = tree, given
        self._known_loads: dict[ast.AST, frozenset[str]] = {}

    def drop(self) -> None:
        """Drop it from the tree."""
        for _ in range(_MOST_PASSES):
            before = sum(1 for _ in _statements(self._tree))
            used = set(self._given).union(*(self._loads(node) for node in _statements(self._tree)))
            body = _reached(self._tree.body)
            self._tree.body = [
                s for s in body if not (isinstance(s, _DEFINITIONS) and s.name not in used)
            ]
            self._sweep([self._tree], used)
            for scope in _scopes(self._tree):
                self._sweep(list(_statements(scope)), self._live_names(scope))
            if sum(1 for _ in _statements(self._tree)) == before:
                return

    def _sweep(self, nodes: list[ast.AST], live: Set[str]) -> None:
        for node in reversed(nodes):
            for body in _bodies(node):
                body[:] = [s for s in _reached(body) if not _has_no_effect(s, live)]

    def _live_names(self, scope: ast.AST) -> set[str]:
        """Names of which something else than an assignment to an unread name depends."""
        reads_of: dict[str, list[Set[str]]] = {}
        waiting: list[Set[str]] = []
        for node in _statements(scope):
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
                if not isinstance(child, _INNER):
                    loads |= _loads(child)
            self._known_loads[statement] = frozenset(loads)
        return self._known_loads[statement]


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    """Functions that stand in no other function."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, _FUNCTIONS):
                yield child
            elif isinstance(child, ast.stmt):
                waiting.append(child)


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


def _sweep(scope: ast.AST, live: Set[str], *, inside: bool) -> None:
    """Drop what has no effect from each body of a scope, innermost first."""
    for node in reversed(list(_statements(scope)) if inside else [scope]):
        for body in _bodies(node):
            body[:] = [s for s in _reached(body) if not _has_no_effect(s, live)]


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
    if isinstance(statement, _FUNCTIONS):
        return False
    if isinstance(statement, ast.For | ast.While | ast.With | ast.If):
        return not any(_bodies(statement))
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


def _statements(scope: ast.AST) -> Iterator[ast.AST]:
    """A scope and all statements in it, each before those that it holds."""
    waiting = [scope]
    while waiting:
        node = waiting.pop()
        yield node
        for field in (*_BODIES, "handlers", "cases"):
            inside = getattr(node, field, None)
            # The body of a lambda or of a conditional expression is no list.
            waiting += inside if isinstance(inside, list) else ()


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for field in _BODIES:
        body = getattr(node, field, None)
        if isinstance(body, list) and body:
            yield body


def _loads(node: ast.AST) -> set[str]:
    """Names that are read in a node, and attributes, by which methods are called."""
    loads: set[str] = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Store):
            loads.add(child.id)
        elif isinstance(child, ast.Attribute):
            loads.add(child.attr)
    return loads


# --- one way of writing -----------------------------------------------------------------------------


class _Substitution(ast.NodeTransformer):
    def __init__(self, values: dict[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:  # as inherited
        return self._values.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def _inline_functions(tree: ast.Module, given: Set[str]) -> None:
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


def _inline_values(function: ast.AST) -> None:
    """Put a value that is named once and used once, in the next statement, in place of the name."""
    stores, loads = Counter[str](), Counter[str]()
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            (loads if isinstance(node.ctx, ast.Load) else stores)[node.id] += 1
    for node in _statements(function):
        for body in _bodies(node):
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
    inner = (child for child in ast.iter_child_nodes(statement) if not isinstance(child, _INNER))
    return {n.id for child in inner for n in ast.walk(child) if isinstance(n, ast.Name)}


# --- writing ----------------------------------------------------------------------------------------


def _imports(tree: ast.Module) -> dict[str, str]:
    """What each imported name is called where it comes from; "" for a module."""
    imported: dict[str, str] = {}
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            imported |= {(a.asname or a.name).split(".")[0]: "" for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                is_module = alias.name in ("nn", "functional", "optim", "func", "autograd")
                imported[alias.asname or alias.name] = "" if is_module else alias.name
    return imported


class _Writer:
    """Writes trees as tokens, operators and calls before what they are applied to."""

    def __init__(self, imported: dict[str, str], given: Set[str]) -> None:
        self._imported, self._given = imported, given

    def body(self, body: list[ast.stmt]) -> Iterator[Token]:
        for statement in body:
            # What is nested deeper than any solution is left out, and hides nothing beside it.
            with contextlib.suppress(RecursionError):
                yield from list(self._statement(statement))

    def _statement(self, node: ast.AST) -> Iterator[Token]:
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
            # What an exception says is prose.
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
        sides = [self._of(side) for side in (node.left, *node.comparators)]
        kinds = [type(op) for op in node.ops]
        names = [kind.__name__ for kind in kinds]
        if len(kinds) == 1 and kinds[0] in _TURNED:
            names, sides = [_TURNED[kinds[0]]], sides[::-1]
        elif len(kinds) == 1 and kinds[0] in _SYMMETRIC:
            sides.sort()
        return names + [word for side in sides for word in side]
