"""Write beam search: look for the most likely continuation of a text, with several candidates at once.

Greedy decoding takes the most likely token each time, and never learns that another one would have led to a
better end. Beam search keeps the best few sequences, the *beams*. In each step,

1. each beam is continued with each token of the vocabulary; their log-probabilities add up
2. the `width` most likely of all these continuations are chosen, however many beams there were
3. of these, the ones that end with `eos` are finished, and put aside; the others are the next beams

The search ends after `max_length` new tokens, or if no beam is left. Beams that are left are finished then,
too, without `eos`. Of all finished sequences the one with the highest score wins:

    score = log-probability / length ** length_penalty        length counts new tokens, `eos` included

Without the division short sequences would win, since each token makes the sum smaller. With a width of 1, this
is greedy decoding.

Source: Freitag and Al-Onaizan (2017), "Beam Search Strategies for Neural Machine Translation", section 3;
Wu et al. (2016), "Google's Neural Machine Translation System", section 7, with another penalty.

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Hypothesis(NamedTuple):
    """Given: what `beam_search` returns."""

    tokens: Tensor  # (length,), int64, those of `start` included
    score: float  # a 0-d tensor is fine, too


def best_continuations(
    log_probs: Tensor, logits: Tensor, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `width` most likely continuations of all beams by one token, the most likely first.

    `log_probs` is (beams,), the log-probability of each beam so far, and `logits` (beams, vocab) says what
    comes next; a softmax makes them probabilities. There are as many continuations as beams times tokens. If
    `width` is above that, return all of them.

    The three results are (n,): the log-probability of each whole sequence, the number of the beam that it
    continues, and the token that it continues it with, both int64. No two continuations are equally likely.
    """
    # TODO: log-softmax, add, the best of all.
    raise NotImplementedError("best_continuations: log-softmax, add, the best of all")


def beam_search(
    step: Callable[[Tensor], Tensor],
    start: Tensor,
    width: int,
    max_length: int,
    eos: int,
    length_penalty: float = 1.0,
) -> Hypothesis:
    """Return the finished sequence with the highest score, and that score.

    `step(tokens)` is the model: tokens (n, length), int64, give logits (n, vocab) for the next token of each
    row. It takes any n, also 0, and any length above 0. How often you call it is up to you.

    `start` (length,), int64, has at least one token, and no `eos`. `width` and `max_length` are at least 1.
    What happens at ties is up to you.
    """
    # TODO: continue, choose, put aside what is finished.
    raise NotImplementedError("beam_search: continue, choose, put aside what is finished")
