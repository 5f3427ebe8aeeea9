"""Small examples for the underflow, the scaler and a step; probe_mixed_precision.py runs them."""

from __future__ import annotations

import math

import torch

from grader.judge.checks import assert_close, entry, promise
from grader.judge.student import Student


@promise(
    "underflow_fraction",
    hint="-1e-8 and 1e-9 become zero in float16; 1e-7 and 3e-6 only lose digits.",
)
def test_example_underflow(student: Student) -> None:
    """Of 1e-9, -1e-8, 1e-7, 3e-6, 1, 0 two fifths are lost, and none with the scale 1024."""
    values = torch.tensor([[1e-9, -1e-8, 1e-7], [3e-6, 1.0, 0.0]])
    for scale, right in ((1.0, 0.4), (1024.0, 0.0)):
        value = student.function("underflow_fraction")(values, scale)
        assert_close(value, right, what=f"the fraction for scale {scale:g}")


@promise(
    "GradScaler",
    points=3,
    hint="inf makes the second iteration bad; the count of good ones begins anew then.",
)
def test_example_scaler(student: Student) -> None:
    """A good, a bad and two good iterations: the scales are 8, 4, 4 and 8, and one step is left out."""
    gradients = [[8.0, -16.0], [1.0, math.inf], [4.0, 8.0], [4.0, 8.0]]
    reports = student.run("iterated", [torch.tensor(gradient) for gradient in gradients])
    reports = entry(reports, kind=list, count=4)
    weights = [torch.tensor(w) for w in ([-1.0, 2.0], [-1.0, 2.0], [-2.0, 0.0], [-3.0, -2.0])]
    for key, right in (
        ("stepped", [True, False, True, True]),
        ("scale", [8.0, 4.0, 4.0, 8.0]),
        ("weight", weights),
    ):
        what = f"the list of each iteration's {key}"
        assert_close([entry(report, key) for report in reports], right, what=what)


@promise(
    "train_step",
    points=2,
    hint="With max_norm: scaler.unscale_(optimizer), then clip_grad_norm_, then the step.",
)
def test_example_step(student: Student) -> None:
    """A gradient (3, 4) moves the weight (1, 2) by itself, or by (0.6, 0.8) with max_norm=1."""
    x = torch.tensor([[3.0, 4.0]])
    for scale in (None, 16.0):
        for max_norm, right in ((None, [[-2.0, -2.0]]), (1.0, [[0.4, 1.2]])):
            report = student.run("stepped", x, scale, max_norm)
            what, weight = f"the weight ({scale=}, {max_norm=})", entry(report, "weight")
            assert_close(weight, torch.tensor(right), what=what, rtol=1e-2)
            value, what = entry(report, "loss"), "the returned loss"
            assert_close(value, 11.0, what=what, rtol=1e-2)
