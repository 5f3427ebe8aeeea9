"""Small examples for beam search, which students may read."""

from __future__ import annotations

import math

import torch

from grader.judge.checks import assert_close, assert_equal, entry, promise
from grader.judge.student import Student

# The probabilities after tokens 0, 1, 2 and 3, the end. At first 1 is more likely than 2, but it leads nowhere.
PROBABILITIES = torch.tensor(
    [
        [0.01, 0.58, 0.40, 0.01],
        [0.34, 0.33, 0.32, 0.01],
        [0.02, 0.04, 0.04, 0.90],
        [0.25, 0.25, 0.25, 0.25],
    ]
)


@promise("best_continuations", hint="0.6 * 0.2, 0.6 * 0.8, 0.4 * 0.9 and 0.4 * 0.1: two are best.")
def test_example_continuations(student: Student) -> None:
    """Beams of 0.6 and 0.4 have the continuations 0.12, 0.48, 0.36 and 0.04: the best two are 0.48 and 0.36."""
    result = student.function("best_continuations")(
        torch.tensor([0.6, 0.4]).log(), torch.tensor([[0.2, 0.8], [0.9, 0.1]]).log(), 2
    )
    log_probs, beams, tokens = entry(result, kind=(tuple, list), count=3)
    best = torch.tensor([0.48, 0.36]).log()
    assert_close(log_probs, best, what="the log-probabilities", rtol=1e-4, atol=1e-4)
    assert_equal(beams, torch.tensor([0, 1]), what="the beams")
    assert_equal(tokens, torch.tensor([1, 0]), what="the tokens")


@promise("beam_search", hint="With one beam, the most likely token is chosen each time.")
def test_example_greedy(student: Student) -> None:
    """With a width of 1, the search goes from 0 to 1, because 0.58 is the highest, and then to 0."""
    tokens, _ = student.run("search", PROBABILITIES, width=1, max_length=2)
    assert_equal(tokens, [0, 1, 0], what="the tokens")


@promise("beam_search", hint="Both 0, 1 and 0, 2 are beams; 0, 2, 3 is finished, with 0.4 * 0.9.")
def test_example_beams(student: Student) -> None:
    """With a width of 2, the search finds 2 and the end: two tokens with the probability 0.36."""
    tokens, score = student.run("search", PROBABILITIES, width=2, max_length=3)
    assert_equal(tokens, [0, 2, 3], what="the tokens")
    assert_close(score, math.log(0.36) / 2, what="the score", rtol=1e-4, atol=1e-4)
