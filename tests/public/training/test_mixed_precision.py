"""Small examples for the underflow, the scaler and a step; probe_mixed_precision.py runs them."""

from __future__ import annotations

import math
from typing import Any

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
    digits = "What only loses digits is counted, too: it is not zero."
    known = {"You divide by all entries, zeros too.": 2 / 6, "Zeros count, too.": 0.5, digits: 0.8}
    known["An entry that was zero before counts as lost."] = 0.6
    late = {"The scale comes too late, or not at all: multiply before you convert.": 0.4}
    for scale, right, mistakes in ((1.0, 0.4, known), (1024.0, 0.0, late)):
        value = student.function("underflow_fraction")(values, scale)
        assert_close(value, right, what=f"the fraction for scale {scale:g}", mistakes=mistakes)


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
    steps: dict[str, list[Any]] = {
        "The second gradient has an inf: that step has to be left out.": [True] * 4,
        "update has to clear what was found: the third is good.": [True, False, False, False],
    }
    scales: dict[str, list[Any]] = {
        "The scale never shrinks.": [8.0, 8.0, 8.0, 16.0],
        "The scale never grows.": [8.0, 4.0, 4.0, 4.0],
        "A bad iteration has to set the count to 0.": [8.0, 4.0, 8.0, 8.0],
        "The scale grows each time: only after growth_interval times.": [16.0, 8.0, 16.0, 32.0],
    }
    raw = torch.tensor([[-8.0, 16.0], [-8.0, 16.0], [-12.0, 8.0], [-16.0, 0.0]])
    scaled = {"Gradients are not divided by the scale: step does it, too.": list(raw)}
    weights = [torch.tensor(w) for w in ([-1.0, 2.0], [-1.0, 2.0], [-2.0, 0.0], [-3.0, -2.0])]
    for key, right, mistakes in (
        ("stepped", [True, False, True, True], steps),
        ("scale", [8.0, 4.0, 4.0, 8.0], scales),
        ("weight", weights, scaled),
    ):
        what = f"the list of each iteration's {key}"
        assert_close(
            [entry(report, key) for report in reports], right, what=what, mistakes=mistakes
        )


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
            early, by = "Scaled gradients are clipped: unscale them first.", 16 * 5
            mistakes = {
                "The gradients are not clipped.": torch.tensor([[-2.0, -2.0]]),
                early: torch.tensor([[1 - 3 / by, 2 - 4 / by]]),
            }
            what, weight = f"the weight ({scale=}, {max_norm=})", entry(report, "weight")
            assert_close(weight, torch.tensor(right), what=what, mistakes=mistakes, rtol=1e-2)
            scaled = {"That is the scaled loss: return the loss itself.": 11.0 * 16}
            value, what = entry(report, "loss"), "the returned loss"
            assert_close(value, 11.0, what=what, mistakes=scaled, rtol=1e-2)
