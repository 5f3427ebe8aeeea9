"""What is read out of a source: what it names, however it writes it, and however long it is."""

from __future__ import annotations

import pytest

from grader.course.manifest import ForbiddenRule
from grader.submissions.source import find_forbidden, parse

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
    ],
)
def test_a_forbidden_name_is_found_however_it_is_written(line: str, name: str) -> None:
    assert found(HEAD.format(line)) == [name]


@pytest.mark.parametrize(
    "line",
    ["return F.glue(x)", "return x.F.glu", "return torch.ops", "return F.sigmoid(x)", "pass"],
)
def test_another_name_is_none(line: str) -> None:
    assert not found(HEAD.format(line))


def test_a_name_elsewhere_is_nobodys_fault() -> None:
    assert not found("import torch.nn.functional as F\ndef other(x):\n    return F.glu(x)\n")


def test_aliases_of_aliases_do_not_grow() -> None:
    lines = "".join(f"        a = a.b{i}\n" for i in range(2000))
    source = HEAD.format("a = F.glu") + lines + "        return a\n"
    assert set(found(source)) == {"torch.nn.functional.glu"}


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1\n".encode("utf-16"), "saved as UTF-16"),
        (b"\x89PNG\r\n\x00\x00", "null bytes"),
        (b"x = 1\x00", "null bytes"),
    ],
)
def test_a_file_in_another_encoding_is_told_what_it_is(source: bytes, told: str) -> None:
    with pytest.raises(SyntaxError, match=told):
        parse(source)
