"""Four numbers, two at a time."""

from __future__ import annotations

import numpy as np
import pytest

from grader.judge.checks import assert_close
from grader.judge.student import Student


@pytest.mark.place("running_mean")
@pytest.mark.hint("Divide by the width.")
def test_example(student: Student) -> None:
    """Two neighbors are averaged."""
    assert_close(
        student.function("running_mean")(np.array([1.0, 3.0, 5.0, 5.0]), 2),
        np.array([2.0, 4.0, 5.0]),
    )
