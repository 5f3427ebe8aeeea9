"""The first difference between two values, and its kind."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from grader.judge.checks.comparison import (
    EXACT,
    TOLERANCES,
    DifferenceKind,
    Rule,
    agreement,
    as_array,
    as_float,
    first_mismatch,
    numeric_leaves,
)
from grader.sandbox.wire.values import Opaque, Record

CLOSE, STRICT = Rule(), Rule(exact=True)


class Pair(NamedTuple):
    """A named tuple defined in a suite."""

    left: Any
    right: Any


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (1, 1.0),
        (1.0, 1),
        (1.0 + 5e-8, 1.0),
        (math.nan, math.nan),
        (math.inf, math.inf),
        ([1, 2], (1, 2)),
        (Record("Other", {"left": 1, "right": 2}), Pair(1, 2)),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
        (np.float64(1.0), 1.0),
        (torch.tensor([1.0, math.nan]), torch.tensor([1.0 + 1e-6, math.nan])),
        (torch.zeros(0, 3), torch.zeros(0, 3)),
        (torch.ones(3, 2).T, torch.ones(2, 3)),
    ],
)
def test_equal_values_have_no_mismatch(actual: object, expected: object) -> None:
    assert first_mismatch(actual, expected, CLOSE) is None


@pytest.mark.parametrize(
    ("actual", "expected", "kind"),
    [
        (None, 1.0, DifferenceKind.TYPE),
        (True, 1, DifferenceKind.TYPE),
        (torch.ones(1), 1.0, DifferenceKind.TYPE),
        (np.ones(1), torch.ones(1), DifferenceKind.TYPE),
        ({"a": 1}, [1], DifferenceKind.TYPE),
        ([1], [1, 2], DifferenceKind.LENGTH),
        ({"a": 1}, {"b": 1}, DifferenceKind.KEYS),
        (Record("R", {"right": 2, "left": 1}), Pair(1, 2), DifferenceKind.FIELDS),
        (torch.ones(2, 3), torch.ones(3, 2), DifferenceKind.SHAPE),
        (torch.ones(2).double(), torch.ones(2), DifferenceKind.DTYPE),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), DifferenceKind.VALUES),
        (math.inf, 1.0, DifferenceKind.VALUES),
        (math.nan, 1.0, DifferenceKind.VALUES),
        ("a", "b", DifferenceKind.VALUES),
        (Opaque("x"), Opaque("x"), DifferenceKind.INCOMPARABLE),
        (torch.zeros(2).to_sparse(), torch.zeros(2).to_sparse(), DifferenceKind.INCOMPARABLE),
    ],
)
def test_a_difference_has_a_kind(actual: object, expected: object, kind: DifferenceKind) -> None:
    mismatch = first_mismatch(actual, expected, CLOSE)
    assert mismatch is not None
    assert (mismatch.kind, mismatch.path) == (kind, ())


@pytest.mark.parametrize(
    ("actual", "expected", "kind"),
    [
        (1.0, 1, DifferenceKind.TYPE),
        (1.0 + 5e-8, 1.0, DifferenceKind.VALUES),
        ({True: 0}, {1: 0}, DifferenceKind.KEYS),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}, DifferenceKind.ORDER),
        (torch.tensor([1.0 + 1e-6]), torch.tensor([1.0]), DifferenceKind.VALUES),
    ],
)
def test_an_exact_rule_accepts_no_near_value(
    actual: object, expected: object, kind: DifferenceKind
) -> None:
    assert first_mismatch(actual, expected, CLOSE) is None
    mismatch = first_mismatch(actual, expected, STRICT)
    assert mismatch is not None and mismatch.kind is kind


def test_an_exact_rule_accepts_an_int_for_a_float() -> None:
    assert first_mismatch(1, 1.0, STRICT) is None


def test_the_first_difference_is_found_in_the_order_of_the_expected_value() -> None:
    expected = {"a": [1, 2], "b": Pair(3, [4, 5])}
    actual = {"b": Pair(0, [0, 0]), "a": [1, 2]}
    mismatch = first_mismatch(actual, expected, CLOSE)
    assert mismatch is not None and mismatch.path == ("b", "left")
    mismatch = first_mismatch(actual | {"a": [1, 0]}, expected, CLOSE)
    assert mismatch is not None and mismatch.path == ("a", 1)
    assert (mismatch.actual, mismatch.expected) == (0, 2)


def test_an_endlessly_nested_structure_is_incomparable() -> None:
    loop: list[object] = []
    loop.append(loop)
    mismatch = first_mismatch(loop, loop, CLOSE)
    assert mismatch is not None and mismatch.kind is DifferenceKind.INCOMPARABLE


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_values_agree_up_to_the_tolerance(dtype: str) -> None:
    tolerance = CLOSE.tolerance(dtype)
    expected = np.array([0.0, 8.0])
    allowed = tolerance.atol + tolerance.rtol * expected
    assert agreement(expected + 0.99 * allowed, expected, tolerance).all()
    assert not agreement(expected + 1.01 * allowed, expected, tolerance).any()


def test_a_rule_replaces_part_of_the_tolerance_and_integers_stay_exact() -> None:
    rule = Rule(rtol=0.5)
    assert rule.tolerance("float32") == (0.5, 1e-5)
    assert rule.tolerance("int64") == rule.tolerance("bool") == EXACT
    assert Rule(exact=True, rtol=0.5).tolerance("float32") == EXACT


def test_numbers_are_read_exactly_or_in_double() -> None:
    for array in (torch.ones(2, dtype=torch.bfloat16), np.ones(2, dtype="float16")):
        read = as_array(array)
        assert read is not None and read.dtype == np.float64
    read = as_array(torch.tensor([2**62 + 1]))
    assert read is not None and read.item() == 2**62 + 1
    for odd in (np.array(["a"]), torch.zeros(2, device="meta"), torch.zeros(2).to_sparse()):
        assert as_array(odd) is None
    assert as_float(10**400) == math.inf and as_float(-(10**400)) == -math.inf


def test_numeric_leaves_pair_numbers_at_the_same_places() -> None:
    actual, expected = {"b": [3, "x"], "a": Pair(1, 2)}, {"a": Pair(4, 5), "b": [6, "y"]}
    assert list(numeric_leaves(actual, expected)) == [(1, 4), (2, 5), (3, 6)]
