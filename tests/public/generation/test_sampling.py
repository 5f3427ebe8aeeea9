"""Small examples for sampling, which students may read."""

from __future__ import annotations

import math

import torch

from grader.judge.checks import assert_close, assert_equal, promise
from grader.judge.student import Student

GONE = -math.inf


@promise("penalize_repetition", hint="2 / 2 = 1, and -3 * 2 = -6.")
def test_example_penalty(student: Student) -> None:
    """With a penalty of 2, the logits 2 and -3 of tokens 0 and 1 become 1 and -6."""
    logits, tokens = torch.tensor([[2.0, -3.0, 0.5]]), torch.tensor([[0, 1, 0]])
    assert_close(
        student.function("penalize_repetition")(logits, tokens, 2.0),
        torch.tensor([[1.0, -6.0, 0.5]]),
        what="the logits",
    )


@promise("keep_top_k", hint="The second highest logit is 2.")
def test_example_top_k(student: Student) -> None:
    """Of [1, 3, 2, 0] the two highest are 3 and 2."""
    assert_close(
        student.function("keep_top_k")(torch.tensor([1.0, 3.0, 2.0, 0.0]), 2),
        torch.tensor([GONE, 3.0, 2.0, GONE]),
        what="the logits",
    )


@promise("keep_top_p", hint="0.5 is below 0.6, and 0.5 + 0.3 is not: two tokens stay.")
def test_example_top_p(student: Student) -> None:
    """Of the probabilities 0.2, 0.5 and 0.3, the last two add up to 0.6 or more."""
    logits = torch.tensor([0.2, 0.5, 0.3]).log()
    assert_close(
        student.function("keep_top_p")(logits, 0.6),
        torch.tensor([0.0, 0.5, 0.3]).log(),
        what="the logits",
    )


@promise("sample", hint="logits.argmax(dim=-1) where the temperature is 0.")
def test_example_greedy(student: Student) -> None:
    """At temperature 0, [1, 3, 2] gives token 1 and [5, 0, 4] gives token 0."""
    tokens = student.function("sample")(
        torch.tensor([[1.0, 3.0, 2.0], [5.0, 0.0, 4.0]]), temperature=0.0
    )
    assert_equal(tokens, torch.tensor([1, 0]), what="the tokens")
