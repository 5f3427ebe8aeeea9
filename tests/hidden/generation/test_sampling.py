"""Tests of penalize_repetition, keep_top_k, keep_top_p and sample."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, assert_tensor, laws, promise, within
from grader.judge.student import Student

# Probabilities that differ clearly, and values of p that are far from every sum of the highest of them.
PROBABILITIES = [0.4, 0.26, 0.18, 0.1, 0.06]
BETWEEN = (0.5, 0.75, 0.9)
# With this many rows, two samples of one distribution differ by less than CLOSE (seven standard deviations).
ROWS, CLOSE = 20000, {"rtol": 0.0, "atol": 0.035}


# --- the repetition penalty ----------------------------------------------------------------------


@promise(
    "penalize_repetition",
    points=6,
    hint="torch.where(seen > 0, seen / penalty, seen * penalty), at the row's tokens.",
)
def test_penalty(code: Student, draw: Draw) -> Cases:
    """Positive logits of a row's tokens are divided, negative ones are multiplied, and others stay."""
    logits, tokens = draw.normal(1, 9), draw.permutation(9)[None, :5]
    penalty = draw.number(1.2, 3.0)
    yield "the logits", code.function("penalize_repetition")(logits, tokens, penalty)


@promise("penalize_repetition", points=2, hint="Compute from the logits that came in, not in turn.")
def test_penalty_once(code: Student, draw: Draw) -> Cases:
    """A token that occurs several times is penalized once."""
    token = draw.integers(1, 1, high=9)
    logits = draw.normal(1, 9).abs() + 1
    yield "the logits", code.function("penalize_repetition")(logits, token.repeat(1, 3), 2.0)


@promise("penalize_repetition", points=2, hint="gather and scatter along the last dimension.")
def test_penalty_of_rows(code: Student, draw: Draw) -> Cases:
    """Each row has tokens of its own."""
    tokens = torch.stack([draw.permutation(9)[:3] for _ in range(4)])
    logits = draw.normal(4, 9).abs() + 1
    yield "the logits", code.function("penalize_repetition")(logits, tokens, 2.0)


# --- top-k ---------------------------------------------------------------------------------------


@promise("keep_top_k", points=6, hint="logits.topk(k).values[..., -1:] is the lowest to stay.")
def test_top_k(code: Student, draw: Draw) -> Cases:
    """The k highest logits of each row stay as they are, and all others are -inf."""
    for shape in [(6,), (4, 6), (2, 3, 6)]:
        for k in (1, 3, 6):
            kept = code.function("keep_top_k")(draw.normal(*shape), k)
            yield f"the logits of shape {shape} for k = {k}", kept


@promise("keep_top_k", points=2, hint="Compare with the k-th highest: drop every logit below it.")
def test_ties(code: Student, draw: Draw) -> Cases:
    """Logits that are equal to the k-th highest stay, too."""
    row = torch.tensor([3.0, 1.0, 1.0, 1.0, -1.0, -2.0]) * draw.number(0.5, 1.5)
    yield (
        "the result for k = 2, with three equal second logits,",
        code.function("keep_top_k")(permuted(draw, row), 2),
    )


@promise(
    "keep_top_k",
    hint="topk(min(k, vocab)): it raises where k is above the size.",
    word="code that does nothing keeps everything",
)
def test_large_k(code: Student, draw: Draw) -> Cases:
    """A k above the size of the vocabulary keeps everything."""
    yield "the result for k = 7 of 6", code.function("keep_top_k")(draw.normal(2, 6), 7)


# --- top-p ---------------------------------------------------------------------------------------


@promise(
    "keep_top_p",
    points=8,
    hint="Keep a token if the tokens before it in the order add up to less than p.",
)
def test_top_p(code: Student, draw: Draw) -> Cases:
    """The fewest tokens that add up to p stay: the most likely ones, up to the one that crosses p."""
    for p in BETWEEN:
        rows = torch.stack([logits(draw) for _ in range(4)])
        yield f"the result for p = {p}", code.function("keep_top_p")(rows, p)


@promise("keep_top_p", points=2, hint="Before the most likely token the sum is 0: keep it.")
def test_small_p(code: Student, draw: Draw) -> Cases:
    """The most likely token stays, however small p is."""
    for p in (1e-6, draw.number(0.1, 0.35)):
        yield f"the result for p = {p:.2g}", code.function("keep_top_p")(logits(draw), p)


@promise("keep_top_p", points=2, hint="Sort along the last dimension, and scatter along it, too.")
def test_top_p_of_any_shape(code: Student, draw: Draw) -> Cases:
    """Any leading dimensions are fine, and tokens that already are -inf stay so."""
    rows = torch.stack([logits(draw) for _ in range(6)]).reshape(2, 3, -1)
    gone = rows.masked_fill(rows < rows.sort(dim=-1).values[..., 1:2], -torch.inf)
    for what, given in {"finite logits": rows, "a token that is gone": gone}.items():
        yield f"the result for p = 0.5 and {what}", code.function("keep_top_p")(given, 0.5)


@promise(
    "keep_top_p",
    hint="masked_fill, not masked_fill_: compute new tensors.",
    word="code that does nothing changes nothing",
)
def test_changes_nothing(student: Student) -> None:
    """keep_top_p, keep_top_k and penalize_repetition leave the logits as they are."""
    laws.check_changes_nothing(student, "keep_top_p", torch.randn(3, 6), 0.5)
    laws.check_changes_nothing(student, "keep_top_k", torch.randn(3, 6), 2)
    tokens = torch.tensor([[1], [2], [3]])
    laws.check_changes_nothing(student, "penalize_repetition", torch.randn(3, 6), tokens, 2.0)


# --- sampling ------------------------------------------------------------------------------------


@promise(
    "sample",
    points=8,
    hint="torch.multinomial(torch.softmax(logits, dim=-1), 1, generator=generator).",
)
def test_distribution(code: Student, draw: Draw) -> Cases:
    """Each token comes as often as its probability says, and rows are drawn independently."""
    yield "the share of each token", frequencies(code, draw)


@promise("sample", points=4, hint="Divide the logits by the temperature, before the softmax.")
def test_temperature(code: Student, draw: Draw) -> Cases:
    """The logits are divided by the temperature."""
    for temperature in (0.5, 2.0):
        what = f"the share of each token at temperature {temperature}"
        yield what, frequencies(code, draw, temperature=temperature)


@promise("sample", points=2, hint="if temperature == 0: return logits.argmax(dim=-1).")
def test_greedy(code: Student, draw: Draw) -> Cases:
    """At temperature 0 the highest logit wins."""
    tokens = code.run("drawn", draw.normal(9, 7), draw.seed(), {"temperature": 0.0})
    yield "the tokens at temperature 0", tokens


@promise("sample", points=4, hint="Filter the logits, and take the softmax of the rest.")
def test_filters(code: Student, draw: Draw) -> Cases:
    """With top_k or top_p, only the kept tokens are drawn, as often as they should be."""
    yield "the share of each token for top_k = 2", frequencies(code, draw, top_k=2)
    yield "the share of each token for top_p = 0.5", frequencies(code, draw, top_p=0.5)


@promise("sample", points=3, hint="First logits / temperature, then top-k, then top-p.")
def test_order(code: Student, draw: Draw) -> Cases:
    """Temperature, top-k and top-p are applied in this order."""
    # The best two have 0.79 of the probability of the best three, and 0.66 of that of all five.
    yield (
        "the share of each token for top_k = 3 and top_p = 0.72",
        frequencies(code, draw, top_k=3, top_p=0.72),
    )
    # At temperature 2, the best two have 0.5 of the probability.
    hot = {"temperature": 2.0, "top_p": 0.6}
    yield (
        "the share of each token for temperature = 2 and top_p = 0.6",
        frequencies(code, draw, **hot),
    )


@promise(
    "sample",
    points=2,
    hint="Hand generator on to the function that draws.",
    word="the sandbox says that tokens repeat",
)
def test_generator(code: Student, draw: Draw) -> Cases:
    """The generator's state decides the tokens, and the global random state stays as it is."""
    seeds = [draw.seed() for _ in range(3)]
    around = [draw.seed() for _ in range(4)]
    report = code.run("repeated", draw.normal(40, 9), [seeds[0], *seeds], around)
    yield "the list of results with the same seed, and with two others,", report


@promise(
    "sample",
    hint="logits / temperature is a new tensor, logits /= temperature is not.",
    word="code that does nothing changes nothing",
)
def test_sample_changes_nothing(student: Student) -> None:
    """sample leaves the logits as they are."""
    logits = torch.randn(3, 6)
    laws.check_changes_nothing(
        student, "sample", logits, temperature=0.5, top_k=4, top_p=0.9, allow=("random",)
    )


# --- helpers of the tests ------------------------------------------------------------------------


def logits(draw: Draw) -> Tensor:
    """Draw logits of the probabilities above, up to a constant and in a random order."""
    row = torch.tensor(PROBABILITIES).log() + draw.number(-2.0, 2.0)
    return permuted(draw, row)


def permuted(draw: Draw, row: Tensor) -> Tensor:
    return row[draw.permutation(len(row))]


def frequencies(code: Student, draw: Draw, **settings: Any) -> Any:
    """Return how often each token is drawn, in many rows with the same logits."""
    row = logits(draw)
    tokens = code.run("drawn", row.repeat(ROWS, 1), draw.seed(), settings)
    tokens = assert_tensor(tokens, shape=(ROWS,), dtype=torch.int64, what="the tokens")
    return within((tokens[:, None] == torch.arange(len(row))).float().mean(0), **CLOSE)
