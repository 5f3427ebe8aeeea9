"""Ways to disguise a copied file, for `bench.similarity`: they change the tree, but not its behavior.

A disguise takes a tree, the names of the stub, which must stay, and its own random generator.
"""

from __future__ import annotations

import ast
import builtins
import random
from collections.abc import Callable, Iterator, Set
from typing import ClassVar

Disguise = Callable[[ast.Module, Set[str], random.Random], ast.Module]

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_METHODS = frozenset({"sigmoid", "exp", "sum", "mean", "abs", "sqrt", "square", "clamp", "log"})


def names_of(tree: ast.Module) -> Set[str]:
    """Return every name of a tree: defined, taken as an argument, or used as an attribute."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
    return names


def renamed(tree: ast.Module, kept: Set[str], chance: random.Random) -> ast.Module:
    """Rename everything that the student named."""
    nodes = list(ast.walk(tree))
    own = {node.id for node in nodes if isinstance(node, ast.Name) and _is_store(node)}
    own |= {node.name for node in nodes if isinstance(node, _DEFINITIONS)}
    own -= kept | set(dir(builtins))
    new = {name: f"{chance.choice('abcdefgh')}_{i}" for i, name in enumerate(sorted(own))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = new.get(node.id, node.id)
        elif isinstance(node, _DEFINITIONS):
            node.name = new.get(node.name, node.name)
        elif isinstance(node, ast.arg):
            node.arg = new.get(node.arg, node.arg)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            node.names = [new.get(name, name) for name in node.names]
    return tree


def reordered(tree: ast.Module, _: Set[str], chance: random.Random) -> ast.Module:
    """Reorder functions and methods, and neighboring assignments that are independent."""
    for body in _bodies(tree):
        places = [i for i, statement in enumerate(body) if isinstance(statement, _DEFINITIONS)]
        definitions = [body[i] for i in places]
        chance.shuffle(definitions)
        for i, definition in zip(places, definitions, strict=True):
            body[i] = definition
        i = 0
        while i + 1 < len(body):
            if _are_independent(body[i], body[i + 1]) and chance.random() < 0.7:
                body[i], body[i + 1] = body[i + 1], body[i]
                i += 1
            i += 1
    return tree


def laid_out(tree: ast.Module, _: Set[str], __: random.Random) -> ast.Module:
    """Remove comments, docstrings and the layout, none of which `ast.unparse` keeps."""
    for body in _bodies(tree):
        body[:] = [s for s in body if not _is_docstring(s)] or [ast.Pass()]
    return tree


def padded(tree: ast.Module, _: Set[str], chance: random.Random) -> ast.Module:
    """Add dead code after each statement."""
    count = 0
    for body in _bodies(tree):
        padding: list[ast.stmt] = []
        for statement in body:
            padding.append(statement)
            if _is_docstring(statement) or isinstance(statement, ast.ImportFrom):
                continue
            count += 1
            name = f"pad_{count}"
            text = chance.choice(
                [
                    f"{name} = {chance.randrange(100)}",
                    f"{name} = [{chance.randrange(9)}, {chance.randrange(9)}]\n{name} = {name} + [1]",
                    f"if False:\n    {name} = {count}\n    print({name})",
                    f"{name} = str({count})",
                    f"{count}, {count + 1}",
                    f"for {name} in ():\n    print({name})",
                    f"{name} = {count} * 2 + 1\n{name} += 3",
                    "pass",
                ]
            )
            padding += ast.parse(text).body
        body[:] = padding
    return tree


class _Rewriter(ast.NodeTransformer):
    """Swap operands, turn comparisons around, and turn functions of torch into methods and back."""

    _TURNED: ClassVar = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
    _SAME = (ast.Eq, ast.NotEq)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:  # as inherited
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Mult) and not _holds_text(node):
            node.left, node.right = node.right, node.left
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:  # as inherited
        self.generic_visit(node)
        if len(node.ops) == 1:
            (op,), (right,) = node.ops, node.comparators
            if isinstance(op, self._SAME):
                node.left, node.comparators = right, [node.left]
            elif turned := self._TURNED.get(type(op)):
                node.left, node.comparators, node.ops = right, [node.left], [turned()]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:  # as inherited
        self.generic_visit(node)
        if node.attr == "T" and isinstance(node.ctx, ast.Load):
            return ast.Call(ast.Attribute(node.value, "t", ast.Load()), [], [])
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:  # as inherited
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr in _METHODS:
            if isinstance(function.value, ast.Name) and function.value.id == "torch":
                if len(node.args) == 1 and not isinstance(node.args[0], ast.Starred):
                    method = ast.Attribute(node.args[0], function.attr, ast.Load())
                    return ast.Call(method, [], node.keywords)
            elif not isinstance(function.value, ast.Name) or function.value.id != "math":
                torch = ast.Attribute(ast.Name("torch", ast.Load()), function.attr, ast.Load())
                return ast.Call(torch, [function.value, *node.args], node.keywords)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:  # as inherited
        self.generic_visit(node)
        if node.orelse and not (len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)):
            test = ast.UnaryOp(ast.Not(), node.test)
            return ast.If(test, node.orelse, node.body)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:  # as inherited
        self.generic_visit(node)
        if isinstance(node.target, ast.Name):
            loaded = ast.Name(node.target.id, ast.Load())
            return ast.Assign([node.target], ast.BinOp(loaded, node.op, node.value))
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST | list[ast.stmt]:  # as inherited
        self.generic_visit(node)
        if isinstance(node.value, ast.Call | ast.BinOp):
            stored = ast.Assign([ast.Name("outcome", ast.Store())], node.value)
            return [stored, ast.Return(ast.Name("outcome", ast.Load()))]
        return node


def rewritten(tree: ast.Module, _: Set[str], __: random.Random) -> ast.Module:
    """Write expressions in another way."""
    rewritten: ast.Module = _Rewriter().visit(tree)
    return rewritten


def extracted(tree: ast.Module, _: Set[str], chance: random.Random) -> ast.Module:
    """Turn every other larger expression into a function of its own."""
    helpers: list[ast.stmt] = []
    top = {n.name for n in tree.body if isinstance(n, _DEFINITIONS)} | _imported(tree)
    for function in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]:
        local = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)} | {
            n.id for n in ast.walk(function) if isinstance(n, ast.Name) and _is_store(n)
        }
        for statement in ast.walk(function):
            if not isinstance(statement, ast.Assign | ast.Return) or statement.value is None:
                continue
            value = statement.value
            odd = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr, ast.Lambda)
            inner = list(ast.walk(value))
            if len(inner) < 10 or any(isinstance(n, odd) for n in inner) or chance.random() < 0.5:
                continue
            bound = {n.id for n in inner if isinstance(n, ast.Name) and _is_store(n)}
            free = {n.id for n in inner if isinstance(n, ast.Name)} & local - bound - top
            if "super" in {n.id for n in inner if isinstance(n, ast.Name)}:
                continue
            name = f"_part_{len(helpers)}"
            arguments = ast.arguments(
                [], [ast.arg(n) for n in sorted(free)], None, [], [], None, []
            )
            helpers.append(ast.FunctionDef(name, arguments, [ast.Return(value)], [], None))
            passed: list[ast.expr] = [ast.Name(n, ast.Load()) for n in sorted(free)]
            statement.value = ast.Call(ast.Name(name, ast.Load()), passed, [])
    tree.body += helpers
    return tree


def padded_alive(tree: ast.Module, _: Set[str], chance: random.Random) -> ast.Module:
    """Add code without effect after each statement, which the syntax tree does not show to be dead."""
    count = 0
    for body in _bodies(tree):
        padding: list[ast.stmt] = []
        for statement in body:
            padding.append(statement)
            if _is_docstring(statement) or isinstance(statement, ast.ImportFrom):
                continue
            count += 1
            text = chance.choice(
                [
                    f"assert len('abc') == 3, {count}",
                    f"if len('abc') > {count % 9 + 3}:\n    raise ValueError('{count}')",
                    f"list(range({count % 7}))",
                    f"sorted([{count}, {count + 1}])",
                    f"try:\n    int('{count}')\nexcept ValueError:\n    raise",
                ]
            )
            padding += ast.parse(text).body
        body[:] = padding
    return tree


class _Unfolder(ast.NodeTransformer):
    """Turn comprehensions into loops, and conditional expressions into branches."""

    def __init__(self) -> None:
        self._count = 0

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:  # as inherited
        return self._unfolded(node, node.value, lambda value: ast.Assign(node.targets, value))

    def visit_Return(self, node: ast.Return) -> ast.AST | list[ast.stmt]:  # as inherited
        return self._unfolded(node, node.value, lambda value: ast.Return(value))

    def _unfolded(
        self, node: ast.stmt, value: ast.expr | None, ended: Callable[[ast.expr], ast.stmt]
    ) -> ast.AST | list[ast.stmt]:
        if isinstance(value, ast.IfExp):
            return ast.If(value.test, [ended(value.body)], [ended(value.orelse)])
        if not isinstance(value, ast.ListComp | ast.DictComp) or len(value.generators) != 1:
            return node
        self._count += 1
        name, generator = f"gathered_{self._count}", value.generators[0]
        if isinstance(value, ast.ListComp):
            empty: ast.expr = ast.List([], ast.Load())
            append = ast.Attribute(ast.Name(name, ast.Load()), "append", ast.Load())
            step: ast.stmt = ast.Expr(ast.Call(append, [value.elt], []))
        else:
            empty = ast.Dict([], [])
            place = ast.Subscript(ast.Name(name, ast.Load()), value.key, ast.Store())
            step = ast.Assign([place], value.value)
        for test in generator.ifs:
            step = ast.If(test, [step], [])
        loop = ast.For(generator.target, generator.iter, [step], [])
        return [
            ast.Assign([ast.Name(name, ast.Store())], empty),
            loop,
            ended(ast.Name(name, ast.Load())),
        ]


def unfolded(tree: ast.Module, _: Set[str], __: random.Random) -> ast.Module:
    """Turn comprehensions into loops, and conditional expressions into branches."""
    unfolded: ast.Module = _Unfolder().visit(tree)
    return unfolded


def everything(tree: ast.Module, kept: Set[str], chance: random.Random) -> ast.Module:
    """Apply all disguises, one after the other."""
    for disguise in (rewritten, extracted, reordered, laid_out, padded, renamed):
        tree = ast.parse(ast.unparse(ast.fix_missing_locations(disguise(tree, kept, chance))))
    return tree


DISGUISES: dict[str, Disguise] = {
    "as it is": lambda tree, _, __: tree,
    "other names": renamed,
    "other order": reordered,
    "other layout": laid_out,
    "dead code": padded,
    "other expressions": rewritten,
    "helpers": extracted,
    "all at once": everything,
    # These were added after the comparison was designed, so it was not tuned to them.
    "unseen: live-looking code": padded_alive,
    "unseen: loops, branches": unfolded,
}


def disguised(source: str, stub: str, disguise: Disguise, seed: int) -> str:
    """Return a file in a disguise; the same seed gives the same file."""
    kept = names_of(ast.parse(stub))
    tree = disguise(ast.parse(source), kept, random.Random(seed))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _imported(tree: ast.Module) -> set[str]:
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    return {(a.asname or a.name).split(".")[0] for node in imports for a in node.names}


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in list(ast.walk(tree)):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body:
                yield body


def _are_independent(first: ast.stmt, second: ast.stmt) -> bool:
    if not all(isinstance(s, ast.Assign) for s in (first, second)):
        return False
    loads, stores = zip(*(_uses(s) for s in (first, second)), strict=True)
    return not (loads[0] & stores[1] or loads[1] & stores[0] or stores[0] & stores[1])


def _uses(statement: ast.stmt) -> tuple[set[str], set[str]]:
    loads, stores = set[str](), set[str]()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else "." + node.attr
            (stores if isinstance(node.ctx, ast.Store) else loads).add(name)
    return loads, stores


def _holds_text(node: ast.AST) -> bool:
    """Return whether the order of an addition may matter, as for strings and lists."""
    return any(
        isinstance(n, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp)
        or (isinstance(n, ast.Constant) and isinstance(n.value, str))
        for n in ast.walk(node)
    )
