"""Small examples for the norm, both ways of clipping, and a step; probe_clipping.py has the model."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from grader.judge.checks import assert_close, entry, promise
from grader.judge.student import Student


def rows(*numbers: float) -> Tensor:
    return torch.tensor(numbers).float().reshape(2, 3)


# Their norms are 5 and 12, together 13.
GRADIENTS = [rows(3, 0, 0, 0, -4, 0), None, rows(0, 0, 0, -12, 0, 0)]


@promise("total_norm", hint="Norms do not add up, their squares do: 5 ** 2 + 12 ** 2 is 13 ** 2.")
def test_example_norm(student: Student) -> None:
    """Gradients with the norms 5 and 12 have the norm 13, the 1-norm 19 and the maximum norm 12."""
    sums = "The norms of the parameters are added: add their squares, and take the root."
    signs = "The signs count in yours: take the magnitudes."
    ones = "That is the norm of the parameters themselves: take their .grad."
    two = "That is the 2-norm: norm_type is ignored."
    mixed = "The norms of the parameters are p-norms, but their norm is a 2-norm."
    largest = "That is the largest of the norms of the parameters: take the norm of all of them."
    mean = "That is the mean over the parameters: take the norm of all entries."
    euclidean = {sums: 17.0, "The root is missing.": 169.0, ones: math.sqrt(18), largest: 12.0}
    skipped = (
        "That is the norm of the parameters themselves, of those with a .grad: take the .grad."
    )
    for p, norm, mistakes in (
        (2, 13.0, {**euclidean, mean: 6.5, skipped: math.sqrt(12)}),
        (1, 19.0, {signs: -13.0, two: 13.0, mixed: math.sqrt(193), largest: 12.0}),
        (math.inf, 12.0, {signs: 3.0, two: 13.0, "x ** (1 / inf) is 1: take the largest.": 1.0}),
    ):
        known = {told: torch.tensor(value) for told, value in mistakes.items()}
        value = student.run("norm", GRADIENTS, p)
        assert_close(value, torch.tensor(norm), what=f"the {p}-norm", mistakes=known, rtol=1e-5)


@promise(
    "clip_grad_norm_", hint="The factor is 6.5 / 13. Can you go through a generator a second time?"
)
def test_example_clipping(student: Student) -> None:
    """Gradients of norm 13 are halved by max_norm=6.5, left alone by 20, and 13 is returned."""
    own = "Each parameter is clipped on its own: one factor for all, from the norm of all."
    used = "Nothing is clipped. A generator is used up by the norm: make a list of it first."
    known = {own: [GRADIENTS[0], None, rows(0, 0, 0, -6.5, 0, 0)], used: GRADIENTS}
    longer = {"They are made longer: leave gradients below max_norm alone.": scaled(20 / 13)}
    after = {"That is the norm after clipping.": torch.tensor(6.5)}
    for limit, factor, mistakes in ((6.5, 0.5, known), (20.0, 1.0, longer)):
        report = student.run("clipped", "clip_grad_norm_", GRADIENTS, limit)
        what, right = f"the list of the gradients after clipping to {limit}", scaled(factor)
        assert_close(entry(report, "gradients"), right, what=what, mistakes=mistakes, rtol=1e-5)
        what, value = "the returned norm", entry(report, "value")
        assert_close(value, torch.tensor(13.0), what=what, mistakes=after, rtol=1e-5)


def scaled(factor: float) -> list[Tensor | None]:
    return [None if gradient is None else gradient * factor for gradient in GRADIENTS]


@promise("clip_grad_value_", hint="clamp_ of each .grad, from -clip_value to clip_value.")
def test_example_value(student: Student) -> None:
    """clip_value=3.5 leaves 3 as it is, and makes -3.5 of -4 and of -12."""
    report = student.run("clipped", "clip_grad_value_", GRADIENTS, 3.5)
    right = [rows(3, 0, 0, 0, -3.5, 0), None, rows(0, 0, 0, -3.5, 0, 0)]
    told = "Entries below -clip_value stay: clamp each .grad on both sides."
    mistakes = {told: GRADIENTS}
    what = "the list of the gradients"
    assert_close(entry(report, "gradients"), right, what=what, mistakes=mistakes)


@promise("train_step", hint="zero_grad, backward, clip, and step only if the norm is finite.")
def test_example_step(student: Student) -> None:
    """Gradients (3, 4), (inf, inf) and (0, 2), clipped to 1, move the weight by 1, nothing, 1."""
    inputs = [torch.tensor([row]) for row in ([3.0, 4.0], [math.inf, math.inf], [0.0, 2.0])]
    report = student.run("stepped", inputs, 1.0)
    made = "The step with infinite gradients is made: skip it."
    stuck = "The step after the skipped one is skipped as well: zero its gradients, keep no flag."
    # For each step the weight after it, and what other weights tell.
    steps: list[tuple[list[float], dict[str, list[float]]]] = [
        (
            [0.4, 1.2],
            {
                "The gradients are not clipped when the optimizer steps.": [-2.0, -2.0],
                "The gradients are clipped by value: clip them by their norm.": [0.0, 1.0],
                "The gradients are clipped by their largest entry: the norm is the 2-norm.": [
                    0.25,
                    1.0,
                ],
                "The optimizer finds no gradient: zero_grad comes before backward.": [1.0, 2.0],
            },
        ),
        ([0.4, 1.2], {made: [-math.inf] * 2, f"{made} inf * 0 is NaN.": [math.nan] * 2}),
        ([0.4, 0.2], {stuck: [0.4, 1.2]}),
    ]
    for i, (right, wrong) in enumerate(steps):
        value, what = entry(report, "weights", i), f"the weight after step {i + 1}"
        mistakes = {told: torch.tensor([weight]) for told, weight in wrong.items()}
        near = {"rtol": 1e-5, "atol": 1e-5}
        assert_close(value, torch.tensor([right]), what=what, mistakes=mistakes, **near)
    known = {
        "These are the norms after clipping.": [1.0, math.inf, 1.0],
        "No norm is above max_norm: return that before clipping.": [1.0, 1.0, 1.0],
        "These are the losses.": [11.0, math.inf, 2.4],
        "The norm of the skipped step is not 0: return it as it is.": [5.0, 0.0, 2.0],
    }
    norms, what = [5.0, math.inf, 2.0], "the list of the norms"
    assert_close(entry(report, "norms"), norms, what=what, mistakes=known, rtol=1e-5)
