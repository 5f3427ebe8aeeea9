"""A relation between two arrays is claimed only if the data identify it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from grader.judge.checks.comparison import TOLERANCES
from grader.judge.checks.relations import common_factor, nonfinite, relation

DRAWN = np.random.default_rng(0).standard_normal((4, 5))


@pytest.mark.parametrize(
    ("actual", "words"),
    [
        (-DRAWN, "Every element is the negative of the expected value."),
        (2 * DRAWN, "Every element is twice the expected value."),
        (DRAWN / 2, "Every element is half of the expected value."),
        (0.37 * DRAWN, "Every element is 0.37 times the expected value."),
        (20 * DRAWN, "20 is the number of its elements"),
        (DRAWN / 4, "this is 1/4, and 4 is the size of dimension 0"),
        (DRAWN / 5**0.5, "1 / the square root of 5, the size of dimension 1"),
        (0 * DRAWN, "All elements are 0."),
        (0 * DRAWN + 7, "All elements are 7."),
        (DRAWN.astype("float32").astype("float64"), "computed in float32?"),
    ],
)
def test_a_relation_is_named(actual: Any, words: str) -> None:
    assert words in (relation(actual, DRAWN, "float64") or "")


def test_a_transpose_is_named() -> None:
    square = DRAWN[:, :4]
    assert relation(square.T, square, "float32") == "These are the expected values, transposed."
    symmetric = square + square.T
    assert relation(symmetric.T + 1, symmetric, "float32") is None


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ([2.0], [1.0]),
        ([2.0, 4.0], [1.0, 2.0]),
        ([0.0, 1.0], [1.0, 0.0]),
        ([5.3, 5.3, 5.3], [5.1, 5.1, 5.1]),
        ([], []),
    ],
)
def test_few_values_identify_nothing(actual: list[float], expected: list[float]) -> None:
    assert relation(np.array(actual), np.array(expected), "float32") is None


def test_a_single_deviating_element_prevents_the_claim() -> None:
    actual = 2 * DRAWN
    actual[1, 2] += 1
    assert relation(actual, DRAWN, "float32") is None


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_only_the_number_of_nonfinite_values_is_claimed(odd: float) -> None:
    actual = 2 * DRAWN
    actual[0, :2] = odd
    assert relation(actual, DRAWN, "float32") is None
    kind = "NaN" if np.isnan(odd) else "infinite"
    assert nonfinite(actual, DRAWN) == f"2 of 20 elements are {kind}."
    assert nonfinite(actual, actual) is None


def test_masks_have_no_factor_and_integers_may_have_one() -> None:
    mask = np.arange(12) % 3 == 0
    assert relation(mask | True, mask, "bool") == "All elements are True."
    assert relation(~mask, mask, "bool") is None
    numbers = np.arange(1, 11)
    assert relation(2 * numbers, numbers, "int64") == "Every element is twice the expected value."


def test_no_relation_is_searched_in_too_many_elements() -> None:
    many = np.random.default_rng(0).standard_normal(50_001)
    assert relation(2 * many[:-1], many[:-1], "float32") is not None
    assert relation(2 * many, many, "float32") is None


def test_a_common_factor_covers_every_element() -> None:
    tolerance = TOLERANCES["float32"]
    assert common_factor(-DRAWN, DRAWN, tolerance) is not None
    assert common_factor(DRAWN.T.reshape(4, 5), DRAWN, tolerance) is None
