"""Small examples for DPO, which students may read."""

from __future__ import annotations

import math

import torch

from grader.judge.checks import assert_close, entry, promise
from grader.judge.student import Student

# The probabilities of token 1 are 0.25, 0.5 and 0.8, at positions 0, 1 and 2.
LOGITS = torch.tensor([[[0.75, 0.25], [0.5, 0.5], [0.2, 0.8]]]).log()
TOKENS = torch.ones(1, 3, dtype=torch.int64)


@promise("sequence_log_probs", hint="The token at position 1 is predicted at position 0: 0.25.")
def test_example_log_probs(student: Student) -> None:
    """Tokens 1 and 2 have the probabilities 0.25 and 0.5, from the logits before them."""
    mask = torch.tensor([[False, True, True]])
    assert_close(
        student.function("sequence_log_probs")(LOGITS, TOKENS, mask),
        log(0.25 * 0.5),
        rtol=1e-4,
        atol=1e-4,
    )


@promise("sequence_log_probs", hint="The mask belongs to the tokens, not to the logits.")
def test_example_mask(student: Student) -> None:
    """If only token 2 belongs to the answer, the probability of the answer is 0.5."""
    mask = torch.tensor([[False, False, True]])
    assert_close(
        student.function("sequence_log_probs")(LOGITS, TOKENS, mask), log(0.5), rtol=1e-4, atol=1e-4
    )


@promise("dpo_loss", hint="The margin is (-1 - -2) - (-4 - -3) = 2.")
def test_example_loss(student: Student) -> None:
    """For a margin of 2 and beta = 0.5 the loss is log(1 + exp(-1)), and the rewards are 0.5 and -0.5."""
    answers = [torch.tensor([number]) for number in (-1.0, -4.0, -2.0, -3.0)]
    result = student.function("dpo_loss")(*answers, 0.5)
    loss, chosen, rejected = entry(result, kind=(tuple, list), count=3)
    assert_close(loss, softplus(-1.0), what="the loss", rtol=1e-4, atol=1e-4)
    assert_close(chosen, torch.tensor([0.5]), what="the rewards of chosen answers")
    assert_close(rejected, torch.tensor([-0.5]), what="the rewards of rejected answers")


def log(probability: float) -> torch.Tensor:
    return torch.tensor([math.log(probability)])


def softplus(x: float) -> torch.Tensor:
    return torch.tensor(math.log1p(math.exp(x)))
