"""Small examples for GRPO, which students may read."""

from __future__ import annotations

import math

import torch

from grader.judge.checks import assert_close, promise
from grader.judge.student import Student

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@promise("group_advantages", hint="The mean is 2, and the deviation sqrt((1 + 0 + 1) / 2) = 1.")
def test_example_advantages(student: Student) -> None:
    """The rewards 1, 2 and 3 have the advantages -1, 0 and 1; equal rewards have the advantage 0."""
    rewards = torch.tensor([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]])
    assert_close(
        student.function("group_advantages")(rewards, 0.0001),
        torch.tensor([[-0.9999, 0.0, 0.9999], [0.0, 0.0, 0.0]]),
        what="the advantages",
        **CLOSE,
    )


@promise(
    "clipped_objective",
    hint="The ratios are 1.1, 1.5 and 0.5. For advantage 1: min(0.5, 0.8) is 0.5, and 1.5 becomes 1.2.",
)
def test_example_objective(student: Student) -> None:
    """Ratios of 1.1, 1.5 and 0.5 give 1.1, 1.2 and 0.5 for advantage 1, and -1.1, -1.5 and -0.8 for -1."""
    old = torch.full((2, 3), -2.0)
    new = old + torch.tensor([1.1, 1.5, 0.5]).log()
    assert_close(
        student.function("clipped_objective")(new, old, torch.tensor([1.0, -1.0])),
        torch.tensor([[1.1, 1.2, 0.5], [-1.1, -1.5, -0.8]]),
        what="the objective",
        **CLOSE,
    )


@promise("kl_estimate", hint="d is log(2), where the reference is twice as sure.")
def test_example_kl(student: Student) -> None:
    """If the reference is equally sure, the estimate is 0; if it is twice as sure, 2 - log(2) - 1."""
    log_probs = torch.tensor([[0.5, 0.25]]).log()
    assert_close(
        student.function("kl_estimate")(log_probs, torch.tensor([[0.5, 0.5]]).log()),
        torch.tensor([[0.0, 1 - math.log(2)]]),
        what="the estimate",
        **CLOSE,
    )


@promise("grpo_loss", hint="The means of the two completions are 1 and -3, whatever their lengths.")
def test_example_loss(student: Student) -> None:
    """On-policy, a completion of one token with advantage 1 and one of three with -3 give -(1 - 3) / 2."""
    tokens = torch.full((2, 3), -1.0)
    mask = torch.tensor([[True, False, False], [True, True, True]])
    advantages = torch.tensor([1.0, -3.0])
    assert_close(
        student.function("grpo_loss")(tokens, tokens, tokens, advantages, mask),
        torch.tensor(1.0),
        what="the loss",
        **CLOSE,
    )
