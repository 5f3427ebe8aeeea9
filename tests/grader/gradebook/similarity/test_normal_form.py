"""Equivalent code gives the same tokens, and other code different ones."""

from __future__ import annotations

import ast

import pytest

from grader.gradebook.similarity.normal_form import Token, names_in, tokens_of

IMPORTS = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\nfrom math import exp\n"
GIVEN = frozenset({"Layer", "forward", "scale", "weight"})


def read(code: str) -> list[str]:
    return [token.text for token in tokens_of(ast.parse(IMPORTS + code), GIVEN)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # Layout, comments and names.
        ("x = y  # why\n", "longer = names\n"),
        ("def f(a):\n    'Prose.'\n    return a", "def g(b: int) -> int:\n    pass\n    return b"),
        ("x: int\ny: int = 3", "y = 4"),
        ("s = 'a'", "s = f'{x} b'"),
        ("raise ValueError('a')", "raise ValueError(f'{x}')"),
        ("raise ValueError", "raise ValueError('a')"),
        ("class A(nn.Module):\n    x = 1", "class B(torch.nn.Module):\n    y = 2"),
        ("self.hidden = 1", "self.other = 2"),
        ("self.step(x)", "self.advance(y)"),
        ("cls.step(cls.x)", "self.advance(self.y)"),
        # Statements.
        ("x += 1", "x = x + 2"),
        ("x @= y", "x = x @ y"),
        # Functions, methods and operators.
        ("torch.exp(x)", "x.exp()"),
        ("F.relu(x)", "torch.relu(x)"),
        ("x.mul(y)", "y * x"),
        ("torch.multiply(x, y)", "y * x"),
        ("torch.sub(x, 1)", "x - 1"),
        ("torch.true_divide(x, y)", "x / y"),
        ("x.mm(y)", "x @ y"),
        ("torch.pow(x, 2)", "x ** 2"),
        ("x.t()", "x.T"),
        ("torch.t(x)", "x.mT"),
        ("torch.concat([x])", "torch.cat([x])"),
        ("x.absolute()", "x.abs()"),
        ("f(a=x, b=1)", "f(b=2, a=y)"),
        # Order.
        ("a + (2)", "2 + a"),
        ("a * 2 * len(b)", "len(b) * a * 2"),
        ("a and len(b)", "len(b) and a"),
        ("a | 1", "1 | a"),
        ("a > 1", "1 < a"),
        ("a >= 1", "1 <= a"),
        ("a == 1", "1 == a"),
        ("a is not None", "None is not a"),
        ("not a == 1", "a != 1"),
        ("not a in b", "a not in b"),
        ("not a is None", "a is not None"),
    ],
)
def test_equivalent_code_gives_the_same_tokens(one: str, other: str) -> None:
    assert read(one) == read(other) != []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a - 1", "1 - a"),
        ("a @ len(b)", "len(b) @ a"),
        ("a < 1", "1 < a"),
        ("a < 1 < b", "b > 1 > len(a)"),
        ("not a < b", "a >= b"),
        ("a and b", "a or b"),
        ("x.add(y, alpha=2)", "x + y"),
        ("x.t(1)", "x.T"),
        ("x.exp()", "x.log()"),
        ("x = 1", "x = 'a'"),
        ("x = True", "x = False"),
        ("x = None", "x = 0"),
        ("self.weight", "self.other"),
        ("self.scale(x)", "self.other(x)"),
        ("len(x)", "sum(x)"),
        ("scale(x)", "other(x)"),
        ("exp(x)", "other(x)"),
        ("def forward(a):\n    return a", "def other(a):\n    return a"),
        ("class Layer:\n    x = 1", "class Other:\n    x = 1"),
        ("def f(a=1):\n    return a", "def f(a):\n    return a"),
        ("@torch.no_grad()\ndef f(a):\n    return a", "def f(a):\n    return a"),
        ("raise ValueError('a')", "raise TypeError('a')"),
        ("if a:\n    x = 1\nelse:\n    y = 1", "if a:\n    x = 1\ny = 1"),
        ("f(a)", "f(a=a)"),
        ("f(**a)", "f(a)"),
        ("-x", "+x"),
        ("while a:\n    f(1)", "if a:\n    f(1)"),
        ("with a:\n    f(1)", "f(1)"),
        ("for x in len(y):\n    f(1)", "for x in y:\n    f(1)"),
        ("if len(y):\n    f(1)", "if y:\n    f(1)"),
        ("return a", "a"),
        ("return len(a)", "return a"),
        ("del a", "a"),
    ],
)
def test_other_code_gives_other_tokens(one: str, other: str) -> None:
    assert read(one) != read(other)


def test_names_of_libraries_and_of_the_stub_are_kept() -> None:
    assert read("exp(len(scale) + own)") == ["()", "exp", "Add", "()", "len", "scale", "name"]
    assert read("def own(a):\n    return a") == ["def", "name", "Return", "name"]
    assert read("class Own(Layer):\n    x = 1") == ["class", "name", "Layer", "=", "name", "0"]
    assert read("x[len(y)]") == ["Subscript", "name", "()", "len", "name"]
    assert read("from torch import optim\noptim.SGD(a)") == ["()", "SGD", "name"]
    assert read("raise ValueError('a')") == ["Raise", "ValueError"]
    assert read("import os as system\nsystem.path.join(a)") == ["()", "join", "name"]
    assert read("torch.nn.init.zeros_(self.weight)") == ["()", "zeros_", "self", "weight"]


def test_each_token_has_the_lines_of_its_statement() -> None:
    tree = ast.parse("if a:\n    f(\n        b,\n    )\nelif (c and\n      d):\n    pass\n")
    lines = {(token.first, token.last) for token in tokens_of(tree, frozenset())}
    assert lines == {(1, 1), (2, 4), (5, 6)}
    (first, *_) = tokens_of(ast.parse("\nx = (1 +\n  2)\n"), frozenset())
    assert first == Token("=", 2, 3)


def test_code_without_effect_has_no_tokens() -> None:
    assert read("'prose'\nimport os\nfrom a import b\npass\nx: int\n3\n...") == []


def test_handlers_cases_and_last_blocks_are_read() -> None:
    code = "try:\n    f(1)\nexcept ValueError:\n    g(2)\nelse:\n    h(3)\nfinally:\n    k(4)\n"
    assert read(code).count("()") == 4
    assert read("match x:\n    case 1:\n        f(1)\n    case _:\n        g(1)\n").count("()") == 2


def test_a_statement_nested_too_deeply_hides_only_itself() -> None:
    deep = ast.parse("x = 1\ny = 2\nz = 3\n")
    inner: ast.expr = ast.Constant(1)
    for _ in range(20_000):
        inner = ast.UnaryOp(ast.USub(), inner)
    assert isinstance(deep.body[1], ast.Assign)
    deep.body[1].value = inner
    assert [token.text for token in tokens_of(deep, frozenset())] == ["=", "name", "0"] * 2
    # Freed piece by piece, since freeing it at once would recurse as deeply.
    while isinstance(inner, ast.UnaryOp):
        outer, inner = inner, inner.operand
        outer.operand = ast.Constant(0)


def test_names_of_a_stub_are_collected() -> None:
    tree = ast.parse("class A:\n    def f(self):\n        self.x = y.z\nasync def g(): ...\n")
    assert names_in(tree) == {"A", "f", "g", "x", "z"}
