"""Small examples for rotary position embedding, which students may read."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from grader.judge.checks import assert_close, promise
from grader.judge.student import Student


@promise("rope_angles", hint="The frequencies are 100 ** 0 = 1 and 100 ** (-2 / 4) = 0.1.")
def test_example_angles(student: Student) -> None:
    """For dim = 4 and base = 100 the pairs turn by 1 and by 0.1 per position."""
    positions = torch.tensor([0, 1, 7])
    assert_close(
        student.function("rope_angles")(positions, 4, 100.0),
        angles_of(positions, [1.0, 0.1]),
        what="the angles of positions 0, 1 and 7",
        rtol=1e-4,
        atol=1e-5,
    )


@promise("apply_rope", hint="The pairs are (1, 3) and (2, 4): features 0 and 2, features 1 and 3.")
def test_example_turns(student: Student) -> None:
    """A quarter turn of the first pair takes [1, 2, 3, 4] to [-3, 2, 1, 4]."""
    x, angles = torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[math.pi / 2, 0.0]])
    assert_close(
        student.function("apply_rope")(x, angles),
        torch.tensor([[-3.0, 2.0, 1.0, 4.0]]),
        what="[1, 2, 3, 4] after a quarter turn of its first pair",
        rtol=1e-4,
        atol=1e-4,
    )


def angles_of(positions: Tensor, frequencies: list[float]) -> Tensor:
    return positions[:, None] * torch.tensor(frequencies)
