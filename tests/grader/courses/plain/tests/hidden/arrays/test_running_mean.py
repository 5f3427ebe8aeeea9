"""Random numbers, drawn anew for each seed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from grader.judge.checks import assert_close
from grader.judge.student import Student


@pytest.mark.points(3)
@pytest.mark.place("running_mean")
@pytest.mark.hint("Any width will do, 1 included.")
def test_widths(student: Student) -> None:
    """Every width from 1 to the number of values is fine."""
    values = np.random.standard_normal(6)
    for width in (1, 3, 6):
        expected = np.array([values[i : i + width].mean() for i in range(7 - width)])
        assert_close(student.function("running_mean")(values, width), expected)


@pytest.mark.unproven("It is about the grader: NumPy is no reason to import torch.")
def test_no_torch(student: Student) -> None:
    """Nobody imports torch for an array."""
    student.function("running_mean")(np.ones(2), 1)
    assert "torch" not in sys.modules, "The judge has imported torch."
