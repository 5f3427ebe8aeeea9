"""Names found in a source, in any notation and at any length."""

from __future__ import annotations

import ast
import sys

import pytest

from grader.course.manifest import ForbiddenRule
from grader.submissions import source as source_module
from grader.submissions.source import find_forbidden, misplaced, parse, used_names

RULE = ForbiddenRule(
    inside=("Layer.forward", "act"),
    reason="write it yourself",
    names=("torch.nn.functional.glu", "torch.ops.aten"),
)
HEAD = """
import torch
import torch.nn.functional as F
from torch.nn import functional
from torch import ops
glu = F.glu
class Layer:
    def forward(self, x):
        {}
"""


def found(source: str) -> list[str]:
    return [finding.name for finding in find_forbidden(parse(source.encode()), (RULE,))]


NAMED_ELSEWHERE = """
import torch.nn.functional as F

def helper(x):
    return F.glu(x)

class Layer:
    def other(self, x):
        return helper(x)

    def forward(self, x):
        return self.other(x)

def act(x):
    return helper(x)
"""


def test_a_name_is_reported_once_at_its_line() -> None:
    (finding,) = find_forbidden(parse(NAMED_ELSEWHERE.encode()), (RULE,))
    assert (finding.line, finding.function) == (5, "helper")
    method = NAMED_ELSEWHERE.replace("return self.other(x)", "return F.glu(x)")
    places = [each.function for each in find_forbidden(parse(method.encode()), (RULE,))]
    assert places == ["helper", "Layer.forward"]


def test_names_used_through_other_functions_are_found() -> None:
    tree = parse(NAMED_ELSEWHERE.encode())
    assert used_names(tree, "act") == used_names(tree, "Layer") == ("F", "helper", "x")[1:2]
    assert used_names(tree, "helper") == ()
    assert used_names(tree, "nowhere") == ()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("return F.glu(x)", "torch.nn.functional.glu"),
        ("return functional.glu(x).sum().item", "torch.nn.functional.glu"),
        ("return torch.nn.functional.glu", "torch.nn.functional.glu"),
        ("return glu(x)", "torch.nn.functional.glu"),
        ("return F.glu.__wrapped__(x)", "torch.nn.functional.glu"),
        ("return ops.aten.glu.default(x, -1)", "torch.ops.aten"),
        ("return [y for y in map(F.glu, x)]", "torch.nn.functional.glu"),
        ("g = F\n        return g.glu(x)", "torch.nn.functional.glu"),
        ("return x[F.glu(x)].sum()", "torch.nn.functional.glu"),
        ("return F.inner.glu(x)", "torch.nn.functional.glu"),
    ],
)
def test_a_forbidden_name_is_found_however_it_is_written(line: str, name: str) -> None:
    assert found(HEAD.format(line)) == [name]


@pytest.mark.parametrize(
    "line",
    ["return F.glue(x)", "return x.F.glu", "return torch.ops", "return F.sigmoid(x)", "pass"],
)
def test_other_names_are_allowed(line: str) -> None:
    assert not found(HEAD.format(line))


@pytest.mark.parametrize(
    ("line", "elsewhere"),
    [
        ("return helper(x)", "def helper(x):\n    return F.glu(x)"),
        ("return first(x)", "def first(x):\n    return helper(x)\nhelper = lambda x: F.glu(x)"),
        (
            "return Helper()(x)",
            "class Helper:\n    def __call__(self, x):\n        return F.glu(x)",
        ),
        ("return TABLE['glu'](x)", "TABLE = {'glu': F.glu}"),
        ("match F:\n            case object(glu=g): return g(x)", ""),
        ("return self.other(x)\n    def other(self, x): return F.glu(x)", ""),
    ],
)
def test_names_reached_from_a_body_belong_to_it(line: str, elsewhere: str) -> None:
    assert set(found(HEAD.format(line) + elsewhere)) == {"torch.nn.functional.glu"}


def test_a_star_import_brings_its_names() -> None:
    source = "from torch.nn.functional import *\ndef act(x):\n    return glu(x)\n"
    assert found(source) == ["torch.nn.functional.glu"]


def test_a_name_used_elsewhere_is_allowed() -> None:
    assert not found("import torch.nn.functional as F\ndef other(x):\n    return F.glu(x)\n")


def test_long_chains_of_aliases_are_followed() -> None:
    lines = "".join(f"        a = a.b{i}\n" for i in range(2000))
    source = HEAD.format("a = F.glu") + lines + "        return a\n"
    assert set(found(source)) == {"torch.nn.functional.glu"}


def test_a_name_in_full_width_letters_is_recognized() -> None:
    line = "return F.glu(x)".translate({ord(c): ord(c) + 0xFEE0 for c in "Fgl"})
    assert "gl" not in line
    assert found(HEAD.format(line)) == ["torch.nn.functional.glu"]


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("x = 1\n".encode("utf-16"), 1, "saved as UTF-16"),
        ("x = 1\n".encode("utf-16-le"), 1, "saved as UTF-16"),
        ("x = 1\n".encode("utf-16-be"), 1, "saved as UTF-16"),
        ("x = 1\n".encode("utf-32"), 1, "saved as UTF-16"),
        (b"\x89PNG\r\n\x00\x00", 2, "null byte"),
        (b"x = 1\x00", 1, "null byte"),
        (b"x = 1\r\ny = 2\rz = 3\nt\x00", 4, "null byte"),
        ("x = 1\n# déjà vu\n".encode("latin-1"), 2, r"0xe9 \(é in Windows-1252\) is not UTF-8"),
        (b"x = 1\n\n\n'\x81'\n", 4, "0x81 is not UTF-8"),
        ("# coding: latin-1\nx = 'é'\n".encode("latin-1"), 1, "names the encoding 'latin-1'"),
        (b"# coding=latin-1\nx = 1\n", 1, "delete that, and save the file as UTF-8"),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n", 2, "'cp1252'"),
        (b"\n\t# -*- coding: utf-7 -*-\n#+AAo-import os\n", 2, "'utf-7'"),
        (b"\xef\xbb\xbf# coding: unicode_escape\n", 1, "'unicode_escape'"),
        (b"# coding: utf-16\n", 1, "'utf-16'"),
        (b"# coding: utf_7_or_other\n", 1, "'utf_7_or_other'"),
        (b"# coding:punycode\n" + b"a" * 199_000, 1, "'punycode'"),
        (b"#" + b" " * 100_000 + b"coding: utf-7\n", 1, "'utf-7'"),
        (b"# encoding coding : coding=hz\n", 1, "'hz'"),
        (b"# coding:rot13\r# coding: utf-8\r", 1, "'rot13'"),
    ],
)
def test_another_encoding_is_named_with_its_line(source: bytes, line: int, message: str) -> None:
    with pytest.raises(SyntaxError, match=message) as refused:
        parse(source)
    assert refused.value.lineno == line


@pytest.mark.parametrize(
    "source",
    [
        b"# coding: utf-8\nx = '\xc3\xa9'",
        b"# -*- coding: UTF8 -*-\nx = '\xc3\xa9'",
        b"#!/usr/bin/env python\n# vim: fileencoding=utf_8\nx = '\xc3\xa9'",
        b"# coding=utf-8-unix\nx = '\xc3\xa9'",
        b"# coding=U8\nx = '\xc3\xa9'",
        b"\xef\xbb\xbfx = '\xc3\xa9'",
        b"\xef\xbb\xbf# coding: utf-8\r\nx = '\xc3\xa9'",
        b"x = '\xc3\xa9'\n# coding: latin-1\n",
        b"# one\n# two\n# coding: latin-1\nx = '\xc3\xa9'",
    ],
)
def test_utf_8_is_read_under_any_of_its_names(source: bytes) -> None:
    (assigned,) = parse(source).body
    assert ast.unparse(assigned) == "x = 'é'"


@pytest.mark.skipif(
    sys.platform == "win32", reason="on Windows, only the time of a child is limited"
)
@pytest.mark.parametrize(
    "source",
    [
        "x = f'" + "{x}" * 66_000 + "'",
        'x = f"""' + "{x:{y}}\n" * 24_000 + '"""',
        "a" + "\u0315\u0300" * 49_000,
    ],
)
def test_a_source_that_takes_quadratic_time_is_first_parsed_by_a_child(
    monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """f-strings take quadratic time before Python 3.12, names with combining characters in every version."""
    tried = []

    def is_bearable(source: bytes) -> bool:
        tried.append(source)
        return False

    monkeypatch.setattr(source_module, "_is_bearable", is_bearable)
    with pytest.raises(SyntaxError, match="takes too long to be parsed"):
        parse(source.encode())
    assert tried == [source.encode()]


@pytest.mark.skipif(
    sys.platform == "win32", reason="on Windows, only the time of a child is limited"
)
def test_a_child_has_a_second_to_parse() -> None:
    assert source_module._is_bearable(b"x = 1\n")
    # Python sorts each combining character into place among those before it.
    assert not source_module._is_bearable(("a" + "\u0315\u0300" * 400_000).encode())


def test_a_large_file_is_read() -> None:
    source = b"def f(a, b):\n    return [a[i] + b[i] * 2 for i in range(10)]\n" * 2_500
    assert len(parse(source).body) == 2_500


@pytest.mark.parametrize(
    "source", ["not " * 30_000 + "1", "x = " + "[" * 1000, "-" * 199_000 + "1"]
)
def test_a_source_nested_too_deeply_is_refused(source: str) -> None:
    with pytest.raises(SyntaxError, match="nest"):
        parse(source.encode())


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("return 1", "'return' outside function"),
        ("class A:\n    yield 1", "'yield' outside function"),
        ("def f():\n    class A:\n        return 1", "'return' outside function"),
        ("if x:\n    break", "'break' outside loop"),
        ("for x in y:\n    def f():\n        continue", "'continue' not properly in loop"),
        ("for x in y:\n    pass\nelse:\n    break", "'break' outside loop"),
        ("await x", "'await' outside function"),
        ("def f():\n    for x in y:\n        if x: break\n        return x", ""),
        ("async def f():\n    while await x: continue\nf = lambda: (yield)", ""),
    ],
)
def test_statements_that_do_not_compile_are_found_without_compiling(source: str, why: str) -> None:
    found = misplaced(ast.parse(source))
    assert (found[1] if found else "") == why
    if why:
        with pytest.raises(SyntaxError, match=why) as refused:
            compile(source, "", "exec")
        assert found is not None and refused.value.lineno == found[0]
    else:
        compile(source, "", "exec")
