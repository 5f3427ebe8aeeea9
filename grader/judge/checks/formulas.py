"""Mistakes in a formula, made by changing its text: what each gives, by what to say of it."""

from __future__ import annotations

import ast
import copy
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any

from grader.judge.checks.wording import element

if TYPE_CHECKING:
    from torch import Tensor

# Functions that are taken for one another, elementwise ones and reductions; `each` changes nothing.
_ELEMENTWISE = ("tanh", "sigmoid", "relu", "silu", "gelu", "softplus", "logsigmoid", "hardsigmoid",
                "erf", "sin", "cos", "cosh", "sinh", "exp", "log", "sqrt", "abs", "square")  # fmt: skip
_REDUCTIONS = ("each", "sum", "mean", "max", "min", "median", "norm", "first", "sign", "abs", "square",
               "sum_of_rows", "mean_of_rows", "mean_of_columns", "root_mean_square")  # fmt: skip


def formula_mistakes(
    formulas: Mapping[str, str],
    names: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    what: str = "Your output",
    named: Mapping[str, str] | None = None,
) -> dict[str, Callable[[], Any]]:
    """What is computed where one thing in a formula is another: sentences for `mistakes`.

    The last of `formulas` is the result; each may use those before it, `names` and the usual functions.
    A factor or a term is left out, a sign or a function is another one, two names are swapped. With a list
    of `names` the value is the list of what each gives, numbers where they are 0-d. `named` are wrong
    results of your own, from their formula to what to say after `what`.

        formula_mistakes({"output": "value * sigmoid(gate)"}, {"value": value, "gate": gate})
    """
    texts = {name: _normal(text) for name, text in formulas.items()}
    last = list(texts)[-1]
    mistakes: dict[str, Callable[[], Any]] = {
        f"{what} {told}.": functools.partial(_values, {**texts, last: text}, names)
        for text, told in (named or {}).items()
    }
    for name, text in texts.items():
        for mutant in _mutants(text):
            subject = "equals" if name == last else f"has {name} ="
            told = f"{what} {subject} {mutant}, where {text} is expected."
            mistakes[told] = functools.partial(_values, {**texts, name: mutant}, names)
    return mistakes


def _values(
    texts: Mapping[str, str], names: Mapping[str, Any] | Sequence[Mapping[str, Any]]
) -> Any:
    if isinstance(names, Mapping):
        return _value(texts, names)
    values = [_value(texts, case) for case in names]
    return [value.item() if getattr(value, "shape", None) == () else value for value in values]


def _value(texts: Mapping[str, str], names: Mapping[str, Any]) -> Any:
    """The value of the last formula; words where it has none, as with shapes that do not fit."""
    values = {**_functions(), **names}
    for name, text in texts.items():
        try:
            values[name] = eval(_compiled(text), {"__builtins__": {}}, values)  # noqa: S307 (the suite's own)
        except (ArithmeticError, AttributeError, RuntimeError, TypeError, ValueError):
            return "the formula has no value"
    return values[list(texts)[-1]]


@functools.cache
def _functions() -> dict[str, Callable[..., Any]]:
    torch = sys.modules["torch"]
    homes = (torch.nn.functional, torch)
    functions = {
        name: getattr(next(home for home in homes if hasattr(home, name)), name)
        for name in {*_ELEMENTWISE, "sum", "mean", "max", "min", "median", "norm", "sign"}
    }
    return functions | {
        "each": lambda x: x,
        "first": lambda x: x.flatten()[0],
        "sum_of_rows": lambda x: x.sum(0, keepdim=True),
        "mean_of_rows": lambda x: x.mean(0, keepdim=True),
        "mean_of_columns": lambda x: x.mean(-1, keepdim=True),
        "root_mean_square": lambda x: x.square().mean().sqrt(),
    }


@functools.lru_cache(maxsize=1024)
def _compiled(text: str) -> CodeType:
    return compile(text, "<formula>", "eval")


@functools.lru_cache(maxsize=256)
def _normal(text: str) -> str:
    """The formula as `ast.unparse` writes it."""
    return ast.unparse(ast.parse(text, mode="eval"))


# A judge asks for the same formulas for every submission, and most answers are right.
@functools.lru_cache(maxsize=256)
def _mutants(text: str) -> tuple[str, ...]:
    """The formula with one thing changed, each change once."""
    tree = ast.parse(text, mode="eval")
    mutants = dict.fromkeys(_changed(tree))
    mutants.pop(text, None)
    return tuple(mutants)


def _changed(tree: ast.Expression) -> Iterator[str]:
    for position, node in enumerate(list(ast.walk(tree))):
        for change in _changes(node, tree):
            mutant = copy.deepcopy(tree)
            target = list(ast.walk(mutant))[position]
            yield ast.unparse(_Replace(target, change).visit(mutant))


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, change: ast.AST) -> None:
        self._target, self._change = target, change

    def visit(self, node: ast.AST) -> Any:
        return copy.deepcopy(self._change) if node is self._target else self.generic_visit(node)


def _changes(node: ast.AST, tree: ast.Expression) -> Iterator[ast.AST]:
    """What may stand in the place of a part."""
    if isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
        swaps: dict[type, tuple[type, ...]] = {
            ast.Add: (ast.Sub, ast.Mult),
            ast.Sub: (ast.Add, ast.Mult),
            ast.Mult: (ast.Div, ast.Add),
            ast.Div: (ast.Mult,),
        }
        for other in swaps.get(type(node.op), ()):
            yield ast.BinOp(node.left, other(), node.right)
        if isinstance(node.op, ast.Sub):
            yield ast.BinOp(node.right, ast.Sub(), node.left)
        inner = node.right
        is_sum = isinstance(inner, ast.BinOp) and isinstance(inner.op, (ast.Add, ast.Sub))
        if isinstance(node.op, ast.Mult) and isinstance(inner, ast.BinOp) and is_sum:
            # The parentheses are missing.
            yield ast.BinOp(ast.BinOp(node.left, node.op, inner.left), inner.op, inner.right)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield node.args[0]
        for function in _ELEMENTWISE if node.func.id in _ELEMENTWISE else _REDUCTIONS:
            yield ast.Call(ast.Name(function, ast.Load()), node.args, node.keywords)
        if isinstance(node.args[0], ast.Call):  # one after the other, the wrong way around
            yield ast.Call(node.args[0].func, [ast.Call(node.func, node.args[0].args, [])], [])
        yield ast.BinOp(ast.Constant(1), ast.Sub(), node)
        yield ast.Call(node.func, [node], [])  # applied twice
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        n = node.value
        for number in {2 * n, n / 2, -n, n * n, n + 1, n - 1} - {n}:
            yield ast.Constant(number)
    elif isinstance(node, ast.Name) and node.id in (names := _names(tree)):
        for other_name in names:
            yield ast.Name(other_name, ast.Load())
    elif isinstance(node, ast.Expression):
        yield ast.Expression(ast.UnaryOp(ast.USub(), node.body))
        yield ast.Expression(ast.BinOp(ast.Constant(2), ast.Mult(), node.body))
        yield ast.Expression(ast.BinOp(node.body, ast.Div(), ast.Constant(2)))
        yield from _swapped(node)


def _names(tree: ast.AST) -> list[str]:
    """The names in a formula that are no functions."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return sorted(names - {*_ELEMENTWISE, *_REDUCTIONS})


def _swapped(tree: ast.Expression) -> Iterator[ast.Expression]:
    """The formula with two of its names exchanged."""
    names = _names(tree)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            swapped = copy.deepcopy(tree)
            for node in ast.walk(swapped):
                if isinstance(node, ast.Name) and node.id in (one, other):
                    node.id = other if node.id == one else one
            yield swapped


def fitted_terms(terms: Mapping[str, Tensor], y: Tensor, *, what: str) -> dict[str, Tensor]:
    """`y` as a sum of the right terms with other factors, if it is one: a sentence, and that sum."""
    import torch

    columns = torch.stack([term.flatten().double() for term in terms.values()], dim=1)
    right = y.detach().flatten()[:, None].double()
    if not right.isfinite().all():
        return {}
    factors = torch.linalg.lstsq(columns, right).solution
    wrong = [
        f"{name} (times {factor:.4g})"
        for name, factor in zip(terms, factors[:, 0].tolist(), strict=True)
        if abs(factor - 1) > 1e-3
    ]
    told = f"Terms of {what} have a wrong factor, in which each should be 1: {', '.join(wrong)}."
    return {told: (columns @ factors).reshape(y.shape).to(y.dtype)} if wrong else {}


def fitted_constants(
    f: Callable[..., Tensor], x: Tensor, y: Tensor, constants: Mapping[str, float]
) -> dict[str, Tensor]:
    """The constants with which f(x, *constants) gives y, found from the right ones: what is off.

    `constants` are the right ones by how a student writes them. Gauss and Newton find the others.
    """
    import torch

    flat, goal = x.detach().flatten().double(), y.detach().flatten().double()
    right, step = list(constants.values()), 1e-6
    values = list(right)
    if not goal.isfinite().all():
        return {}
    for _ in range(12):
        here = f(flat, *values)
        moved = [[v + step * (i == j) for i, v in enumerate(values)] for j in range(len(values))]
        slopes = torch.stack([f(flat, *point) - here for point in moved], dim=1) / step
        if not slopes.isfinite().all():
            return {}
        change = torch.linalg.lstsq(slopes, (goal - here)[:, None]).solution[:, 0].tolist()
        values = [v + d for v, d in zip(values, change, strict=True)]
    if not all(map(_finite, values)) or (f(flat, *values) - goal).abs().max() > 1e-4:
        return {}
    told = []
    for (name, wanted), found in zip(constants.items(), values, strict=True):
        if abs(found) < 1e-6 < abs(wanted):
            told.append(f"The term with {name} is missing.")
        elif abs(found - wanted) > 1e-7 * (10 if abs(wanted) < 0.1 else 1):
            slip = (
                "is rounded or mistyped"
                if abs(found - wanted) < 0.1
                else "is not what it should be"
            )
            told.append(f"{name} {slip}, you have {element(found)}: write it in full.")
    return {" ".join(told): f(x, *values)} if told else {}


def _finite(number: float) -> bool:
    return number - number == 0
