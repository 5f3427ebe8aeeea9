"""Write direct preference optimization (DPO): teach a language model which of two answers people prefer.

For each prompt there is a chosen and a rejected answer. The model shall make the chosen one more likely than
the rejected one, compared with a frozen reference, the model from before the training:

    margin = (log p(chosen) - log p_ref(chosen)) - (log p(rejected) - log p_ref(rejected))
    loss   = -log sigmoid(beta * margin)

`log p(answer)` is the sum of the log-probabilities of the tokens of the answer. `beta * (log p - log p_ref)`
is the *reward* that the model gives to an answer, implicitly: people watch it during the training.

Source: Rafailov et al. (2023), "Direct Preference Optimization: Your Language Model is Secretly a Reward
Model", section 4.

What holds for every exercise: docs/every-exercise.md.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class DPOLoss(NamedTuple):
    """Given: what `dpo_loss` returns."""

    loss: Tensor  # 0-d, the mean over the batch
    chosen_rewards: Tensor  # (batch,)
    rejected_rewards: Tensor  # (batch,)


def sequence_log_probs(logits: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the log-probability of each sequence's answer, the sum over its tokens: (batch,).

    `logits` (batch, length, vocab) are what the model gives for `tokens` (batch, length), int64; length is at
    least 2. `mask` (batch, length), bool, is True at the tokens of the answer, and False in the prompt and in
    the padding.

    - The logits at position t are about token t + 1. So nothing is said of the first token: it does not count,
      whatever its mask is.
    - Where the mask is False, a token may be any number, also -100, as padding often is.
    - A sequence without an answer gives 0.
    - Logits may be up to 1e4 in magnitude. Gradients reach them.
    """
    # TODO: shift, log-softmax, pick, mask, sum.
    raise NotImplementedError("sequence_log_probs: shift, log-softmax, pick, mask, sum")


def dpo_loss(
    chosen: Tensor,
    rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    beta: float = 0.1,
) -> DPOLoss:
    """Return the mean loss and the rewards of a batch of pairs, from the log-probabilities of their answers.

    All four are (batch,), of at least one pair: the model's and the reference's log-probabilities.

    - Loss and gradients are finite for margins of up to 1e6 in magnitude.
    - Gradients reach `chosen` and `rejected`. None reaches the reference's, even if they require one.
    - The rewards are detached: they are there to be logged.
    """
    # TODO: rewards, margin, logsigmoid.
    raise NotImplementedError("dpo_loss: rewards, margin, logsigmoid")
