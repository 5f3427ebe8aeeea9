"""Tests of sequence_log_probs and dpo_loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, any_gradients, entry, laws, promise, within
from grader.judge.student import Student

BATCH, LENGTH, VOCAB = 4, 7, 9
# Tolerances for sums in float32, which may be added up in any order.
SUMS = {"rtol": 1e-4, "atol": 1e-5}
IGNORED = -100


# --- the log-probabilities of sequences ----------------------------------------------------------


@promise(
    "sequence_log_probs",
    points=9,
    hint="log_softmax(logits[:, :-1], -1).gather(-1, tokens[:, 1:, None]), and the sum.",
)
def test_log_probs(code: Student, draw: Draw) -> Cases:
    """The log-probability of each token but the first comes from the logits before it, and all are added up."""
    everything = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    log_probs = code.function("sequence_log_probs")(logits(draw), tokens(draw), everything)
    yield "the log-probabilities", any_gradients(within(log_probs, **SUMS))


@promise(
    "sequence_log_probs",
    points=5,
    hint="The mask belongs to the tokens: shift it as you shift them.",
)
def test_mask(code: Student, draw: Draw) -> Cases:
    """Only tokens where the mask is True count."""
    # The logits are the same at every position: test_log_probs judges which ones belong to a token.
    flat = draw.normal(BATCH, 1, VOCAB).expand(BATCH, LENGTH, VOCAB)
    log_probs = code.function("sequence_log_probs")(flat, tokens(draw), random_mask(draw))
    yield "the log-probabilities", any_gradients(within(log_probs, **SUMS))


@promise(
    "sequence_log_probs",
    points=2,
    hint="tokens.masked_fill(~mask, 0) before you look them up.",
)
def test_ignored_tokens(code: Student, draw: Draw) -> Cases:
    """A token where the mask is False may be -100, or beyond the vocabulary."""
    flat = draw.normal(BATCH, 1, VOCAB).expand(BATCH, LENGTH, VOCAB)
    mask = random_mask(draw)
    for odd in (IGNORED, 10 * VOCAB):
        given = with_ignored(tokens(draw), mask, odd)
        log_probs = code.function("sequence_log_probs")(flat, given, mask)
        yield (
            f"the log-probabilities where others are {odd}",
            any_gradients(within(log_probs, **SUMS)),
        )


@promise("sequence_log_probs", hint="A sum over no token is 0; a mean over none is NaN.")
def test_no_answer(code: Student, draw: Draw) -> Cases:
    """A sequence without an answer gives 0, and does not affect the others."""
    flat = draw.normal(BATCH, 1, VOCAB).expand(BATCH, LENGTH, VOCAB)
    mask = random_mask(draw)
    mask[draw.size(0, BATCH)] = False
    log_probs = code.function("sequence_log_probs")(flat, tokens(draw), mask)
    yield "the log-probabilities", any_gradients(within(log_probs, **SUMS))


@promise(
    "sequence_log_probs",
    points=3,
    hint="No detach, no .item(), no .tolist() on the way.",
    after="test_log_probs",
)
def test_log_prob_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach the logits."""
    given = draw.normal(BATCH, LENGTH, VOCAB, grad="logits")
    log_probs = code.function("sequence_log_probs")(given, tokens(draw), random_mask(draw))
    yield "the log-probabilities", within(log_probs, **SUMS)


@promise(
    "sequence_log_probs",
    points=2,
    hint="torch.log_softmax, not the log of a softmax.",
)
def test_large_logits(code: Student, draw: Draw) -> Cases:
    """Logits of 1e4 give finite log-probabilities."""
    flat = 1e4 * draw.normal(BATCH, 1, VOCAB).expand(BATCH, LENGTH, VOCAB).clamp(-1, 1)
    log_probs = code.function("sequence_log_probs")(flat, tokens(draw), random_mask(draw))
    yield "the log-probabilities for large logits", any_gradients(within(log_probs, **SUMS))


@promise(
    "sequence_log_probs",
    hint="Name no dtype, and make no new tensor of your own.",
    after="test_log_probs",
)
def test_float64(code: Student, draw: Draw) -> Cases:
    """In float64 the result has the precision of float64."""
    given = draw.normal(BATCH, LENGTH, VOCAB, dtype=torch.float64)
    log_probs = code.function("sequence_log_probs")(given, tokens(draw), random_mask(draw))
    yield "the log-probabilities", any_gradients(log_probs)


@promise(
    "sequence_log_probs",
    hint="tokens[~mask] = 0 writes into the tokens of the caller: masked_fill makes new ones.",
    word="code that does nothing changes nothing",
)
def test_changes_nothing(student: Student) -> None:
    """logits, tokens and mask are left as they are."""
    mask = torch.rand(BATCH, LENGTH) < 0.5
    given = with_ignored(torch.randint(VOCAB, (BATCH, LENGTH)), mask, IGNORED)
    laws.check_changes_nothing(
        student, "sequence_log_probs", torch.randn(BATCH, LENGTH, VOCAB), given, mask
    )


# --- the loss ------------------------------------------------------------------------------------


@promise("dpo_loss", points=8, hint="-F.logsigmoid(beta * margin).mean()")
def test_loss(code: Student, draw: Draw) -> Cases:
    """The loss is the mean of -log sigmoid(beta * margin) over the batch."""
    # beta is 1, so that a misplaced beta costs nothing here: test_beta judges it.
    result = code.function("dpo_loss")(*four(draw), 1.0)
    yield "the loss", any_gradients(within(entry(result, 0), **SUMS))


@promise("dpo_loss", points=3, hint="beta multiplies the margin, within logsigmoid.")
def test_beta(code: Student, draw: Draw) -> Cases:
    """The margin is multiplied by beta, which is 0.1 by default."""
    for beta in ((draw.number(0.2, 0.6),), ()):
        what = f"the loss for beta = {beta[0]:.2f}" if beta else "the loss without beta"
        # There is one pair only, so that the mean over the batch does not matter.
        result = code.function("dpo_loss")(*four(draw, 1), *beta)
        yield what, any_gradients(within(entry(result, 0), **SUMS))


@promise("dpo_loss", points=4, hint="Compute the loss from chosen and rejected as they are.")
def test_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach the model's log-probabilities, but not the reference's."""
    names = ("chosen", "rejected", "reference_chosen", "reference_rejected")
    leaves = [draw.leaf(*pair) for pair in zip(names, four(draw), strict=True)]
    yield "the loss", within(entry(code.function("dpo_loss")(*leaves, 1.0), 0), **SUMS)


@promise("dpo_loss", points=3, hint="F.logsigmoid, not the log of a sigmoid.")
def test_large_margins(code: Student, draw: Draw) -> Cases:
    """Loss and gradients are finite for margins of 1e6."""
    for sign in (1, -1):
        chosen = draw.leaf("chosen", sign * 1e6 * (1 + draw.uniform(1)))
        zero = torch.zeros(1)
        loss = entry(code.function("dpo_loss")(chosen, zero, zero, zero, 1.0), 0)
        laws.check_finite(loss, what="the loss for large margins", why="log(sigmoid(x)) is log(0)")
        yield f"the loss for a large margin, times {sign}", within(loss, **SUMS)


@promise("dpo_loss", points=4, hint="beta * (log p - log p_ref), for each answer.")
def test_rewards(code: Student, draw: Draw) -> Cases:
    """The reward of a chosen or rejected answer is beta * (log p - log p_ref)."""
    result = code.function("dpo_loss")(*four(draw), draw.number(0.2, 0.6))
    for number, what in ((1, "chosen"), (2, "rejected")):
        yield f"the rewards of {what} answers", any_gradients(within(entry(result, number), **SUMS))


@promise(
    "dpo_loss",
    hint="Detach the rewards that you return, but not the rewards in the loss.",
    word="the sandbox says whether the rewards require a gradient",
)
def test_rewards_are_detached(code: Student, draw: Draw) -> Cases:
    """The rewards require no gradient."""
    result = code.function("dpo_loss")(*(each.requires_grad_() for each in four(draw)))
    attached = [bool(getattr(entry(result, i), "requires_grad", None)) for i in range(3)]
    yield "the list of requires_grad of loss, chosen and rejected rewards", attached


# --- helpers of the tests ------------------------------------------------------------------------


def logits(draw: Draw) -> Tensor:
    return draw.normal(BATCH, LENGTH, VOCAB, scale=2.0)


def tokens(draw: Draw) -> Tensor:
    return draw.integers(BATCH, LENGTH, high=VOCAB)


def random_mask(draw: Draw) -> Tensor:
    """Draw a mask of about half of the tokens.

    It is True at the first token of row 0 and False at that of row 1. Each row has a True further on.
    """
    mask = draw.uniform(BATCH, LENGTH) < 0.5
    mask[0, 0], mask[1, 0] = True, False
    mask[:, draw.size(1, LENGTH)] = True
    return mask


def with_ignored(tokens: Tensor, mask: Tensor, odd: int) -> Tensor:
    """Return the tokens, with an odd number where neither a token nor the one before it counts.

    So code with a mask that is not shifted looks up no odd number, and is told of its mask.
    """
    before = torch.nn.functional.pad(mask[:, :-1], (1, 0))
    return tokens.masked_fill(~mask & ~before, odd)


def four(draw: Draw, batch: int = BATCH) -> list[Any]:
    """Draw log-probabilities of chosen and rejected answers, the model's and then the reference's."""
    return [draw.normal(batch, scale=2.0) - 10 for _ in range(4)]
