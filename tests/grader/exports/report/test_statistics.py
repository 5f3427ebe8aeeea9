"""The statistics of a class equal values computed by hand."""

from __future__ import annotations

import math
import random

import pytest

from grader.exports.report.overview import FEWEST_STUDENTS, discrimination, mean, median, quantile


def test_discrimination_is_the_point_biserial_correlation() -> None:
    # Ten students pass and have 6 or 8 other points. Ten fail and have 2 or 4. The means are 7 and 3, each
    # share is 1/2, and the total variance is 4 + 1. So r = (7 - 3) / sqrt(5) * sqrt(1/4) = 2 / sqrt(5).
    items = [1.0] * 10 + [0.0] * 10
    rests = [6.0, 8.0] * 5 + [2.0, 4.0] * 5
    assert discrimination(list(zip(items, rests, strict=True))) == pytest.approx(2 / math.sqrt(5))


def test_an_item_that_weak_students_pass_discriminates_negatively() -> None:
    items = [0.0] * 10 + [1.0] * 10
    rests = [6.0, 8.0] * 5 + [2.0, 4.0] * 5
    assert discrimination(list(zip(items, rests, strict=True))) == pytest.approx(-2 / math.sqrt(5))


def test_discrimination_agrees_with_numpy_on_any_points() -> None:
    import numpy as np

    chance = random.Random(0)
    items = [chance.uniform(0, 15) for _ in range(200)]
    rests = [each * 2 + chance.gauss(0, 10) for each in items]
    assert discrimination(list(zip(items, rests, strict=True))) == pytest.approx(
        np.corrcoef(items, rests)[0, 1]
    )


@pytest.mark.parametrize(
    ("items", "rests"),
    [
        ([1.0, 0.0] * (FEWEST_STUDENTS // 2 - 1), [2.0, 1.0] * (FEWEST_STUDENTS // 2 - 1)),
        ([1.0] * 40, [float(n) for n in range(40)]),
        ([1.0, 0.0] * 20, [7.0] * 40),
        ([], []),
    ],
    ids=["too few students", "all passed", "the rest is alike", "nobody"],
)
def test_meaningless_discrimination_is_none(items: list[float], rests: list[float]) -> None:
    assert discrimination(list(zip(items, rests, strict=True))) is None


def test_mean_median_and_quantile() -> None:
    values = [4.0, 1.0, 3.0, 2.0]
    assert mean(values) == 2.5
    assert median(values) == 2.5
    assert [quantile(values, share) for share in (0.25, 0.5, 0.9, 1.0)] == [1.0, 2.0, 4.0, 4.0]
    assert quantile([5.0], 0.0) == 5.0


def test_an_empty_list_has_no_mean() -> None:
    assert mean([]) is None
    assert median([]) is None
    assert quantile([], 0.5) is None
