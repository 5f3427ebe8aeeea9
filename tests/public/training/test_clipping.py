"""Small examples for the norm, both ways of clipping, and a step; probe_clipping.py has the model."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from grader.judge.checks import assert_close, entry, promise
from grader.judge.student import Student


def rows(*numbers: float) -> Tensor:
    return torch.tensor(numbers).float().reshape(2, 3)


# The norms are 5 and 12, and together 13.
GRADIENTS = [rows(3, 0, 0, 0, -4, 0), None, rows(0, 0, 0, -12, 0, 0)]


@promise("total_norm", hint="Norms do not add up, their squares do: 5 ** 2 + 12 ** 2 is 13 ** 2.")
def test_example_norm(student: Student) -> None:
    """Gradients with the norms 5 and 12 have the norm 13, the 1-norm 19 and the maximum norm 12."""
    for p, norm in ((2, 13.0), (1, 19.0), (math.inf, 12.0)):
        value = student.run("norm", GRADIENTS, p)
        assert_close(value, torch.tensor(norm), what=f"the {p}-norm", rtol=1e-5)


@promise(
    "clip_grad_norm_", hint="The factor is 6.5 / 13. Can you go through a generator a second time?"
)
def test_example_clipping(student: Student) -> None:
    """Gradients of norm 13 are halved by max_norm=6.5, left alone by 20, and 13 is returned."""
    for limit, factor in ((6.5, 0.5), (20.0, 1.0)):
        report = student.run("clipped", "clip_grad_norm_", GRADIENTS, limit)
        what, right = f"the list of the gradients after clipping to {limit}", scaled(factor)
        assert_close(entry(report, "gradients"), right, what=what, rtol=1e-5)
        what, value = "the returned norm", entry(report, "value")
        assert_close(value, torch.tensor(13.0), what=what, rtol=1e-5)


def scaled(factor: float) -> list[Tensor | None]:
    return [None if gradient is None else gradient * factor for gradient in GRADIENTS]


@promise("clip_grad_value_", hint="clamp_ of each .grad, from -clip_value to clip_value.")
def test_example_value(student: Student) -> None:
    """clip_value=3.5 leaves 3 as it is, and turns -4 and -12 into -3.5."""
    report = student.run("clipped", "clip_grad_value_", GRADIENTS, 3.5)
    right = [rows(3, 0, 0, 0, -3.5, 0), None, rows(0, 0, 0, -3.5, 0, 0)]
    what = "the list of the gradients"
    assert_close(entry(report, "gradients"), right, what=what)


@promise("train_step", hint="zero_grad, backward, clip, and step only if the norm is finite.")
def test_example_step(student: Student) -> None:
    """Gradients (3, 4), (inf, inf) and (0, 2), clipped to 1, move the weight by 1, not at all, and by 1."""
    inputs = [torch.tensor([row]) for row in ([3.0, 4.0], [math.inf, math.inf], [0.0, 2.0])]
    report = student.run("stepped", inputs, 1.0)
    for i, right in enumerate(([0.4, 1.2], [0.4, 1.2], [0.4, 0.2])):
        value, what = entry(report, "weights", i), f"the weight after step {i + 1}"
        near = {"rtol": 1e-5, "atol": 1e-5}
        assert_close(value, torch.tensor([right]), what=what, **near)
    norms, what = [5.0, math.inf, 2.0], "the list of the norms"
    assert_close(entry(report, "norms"), norms, what=what, rtol=1e-5)
