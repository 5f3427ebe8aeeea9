"""Inputs of laws: the kinds and layouts of tensors that callers have, and exact equality."""

from __future__ import annotations

import pytest
import torch

from grader.judge.checks.laws.calls import layouts_of
from grader.judge.checks.laws.observation import kinds_of, same
from grader.sandbox.wire.values import Opaque


def test_a_tensor_has_four_kinds() -> None:
    x = torch.tensor([1.0, 2.0])
    data, leaf, used, result = kinds_of(x)
    assert all(torch.equal(kind, x) and kind is not x for kind in (data, leaf, used, result))
    assert [kind.requires_grad for kind in (data, leaf, used, result)] == [False, True, True, True]
    assert [kind.is_leaf for kind in (data, leaf, used, result)] == [True, True, True, False]
    assert leaf.grad is None and used.grad is not None


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (5,), ()])
def test_layouts_differ_only_in_memory(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    ways = layouts_of(x)
    assert ("transposed" in ways) == (len(shape) > 1)
    for way, made in ways.items():
        expected = x[:1].expand_as(x) if way == "expanded" else x
        assert torch.equal(made, expected), way
        assert made.stride() != x.stride() or made.storage_offset() or not shape or shape == (5,)


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        (1, 1, True),
        (1.0, 1, False),
        (True, 1, False),
        (float("nan"), float("nan"), True),
        (torch.ones(2), torch.ones(2), True),
        (torch.ones(2), torch.ones(2).double(), False),
        (torch.ones(2), torch.ones(2) + 1e-7, False),
        (Opaque("x"), Opaque("x"), True),
        (Opaque("x"), Opaque("y"), False),
        (Opaque("x"), "x", False),
    ],
)
def test_same_is_exact(left: object, right: object, is_same: bool) -> None:
    assert same(left, right) is is_same
