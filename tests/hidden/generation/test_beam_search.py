"""Tests of best_continuations and beam_search."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, any_gradients, entry, laws, promise, within
from grader.judge.student import Student

VOCAB, START, STEPS = 5, 2, 4
# Enough searches at once for a mistake to show in one of them.
SEARCHES, MANY = 8, 24
# Added to the logit of eos, so that no sequence ends, some do, or all do.
NEVER, SOMETIMES, ALWAYS = -50.0, 1.0, 50.0
# Tolerances for sums in float32, which may be added up in any order.
SUMS = {"rtol": 1e-4, "atol": 1e-5}


# --- one step ------------------------------------------------------------------------------------


@promise(
    "best_continuations",
    points=6,
    hint="Flatten (beams, vocab), take topk: // vocab is the beam, % vocab the token.",
)
def test_best(code: Student, draw: Draw) -> Cases:
    """The best continuations of all beams are chosen, each with its sum, its beam and its token."""
    for beams, width in ((4, 3), (3, 6), (1, 2)):
        # These are log-probabilities already.
        logits = torch.log_softmax(draw.normal(beams, VOCAB), dim=-1)
        best = code.function("best_continuations")(draw.normal(beams), logits, width)
        yield (
            f"the result for {beams} beams and width = {width}",
            parts(best),
        )


@promise("best_continuations", points=3, hint="torch.log_softmax(logits, dim=-1), for each beam.")
def test_logits(code: Student, draw: Draw) -> Cases:
    """The logits are made log-probabilities, separately for each beam."""
    logits = draw.normal(3, VOCAB, scale=2.0) + 5 * draw.normal(3, 1)
    best = code.function("best_continuations")(torch.zeros(3), logits, 4)
    yield "the result for logits that are not log-probabilities", parts(best)


@promise("best_continuations", points=2, hint="topk raises for more than there are: use min.")
def test_all(code: Student, draw: Draw) -> Cases:
    """If width is above the number of continuations, all are returned."""
    logits = torch.log_softmax(draw.normal(2, VOCAB), dim=-1)
    best = code.function("best_continuations")(draw.normal(2), logits, 2 * VOCAB + 3)
    yield "the result for a large width", parts(best)


# --- the search ----------------------------------------------------------------------------------


@promise(
    "beam_search", points=3, hint="Call step with all of the tokens so far, and append the best."
)
def test_greedy(code: Student, draw: Draw) -> Cases:
    """With a width of 1, each step takes the most likely token, up to max_length new ones."""
    yield "the new tokens for width = 1", new(search(code, draw, endless, width=1))


@promise(
    "beam_search", points=5, hint="Continue beams[parents]: a beam may have several continuations."
)
def test_beams(code: Student, draw: Draw) -> Cases:
    """With more beams, the search finds sequences that begin less likely and end better."""
    for width in (2, 4):
        yield f"the new tokens for width = {width}", new(search(code, draw, endless, width=width))


@promise("beam_search", hint="The beams begin as start itself, and tokens are appended.")
def test_start(code: Student, draw: Draw) -> Cases:
    """The tokens begin with those of start."""
    found = search(code, draw, endless, width=2)
    yield "the first tokens", [entry(found, i, "start") for i in range(SEARCHES)]


@promise(
    "beam_search",
    points=5,
    hint="A sequence that ends with eos is put aside, and not continued. The others go on.",
)
def test_finished(code: Student, draw: Draw) -> Cases:
    """Sequences that end with eos are put aside, and the best of all finished sequences wins."""
    for width in (1, 3):
        found = search(code, draw, ending, width=width)
        yield f"the new tokens for width = {width}, where all end with eos", new(found)


@promise(
    "beam_search",
    points=3,
    hint="Choose width continuations of all, in each step; then see which of them end.",
)
def test_places(code: Student, draw: Draw) -> Cases:
    """Each step chooses `width` continuations, and those that end with eos are among them."""
    # In the first searches, the longest sequence wins; in the second, the best of many that end.
    found = search(code, draw, often, width=2, length_penalty=20.0)
    yield "the new tokens for length_penalty = 20", new(found)
    found = search(code, draw, ending, count=MANY, width=2, length_penalty=2.0)
    yield "the new tokens for length_penalty = 2", new(found, MANY)


@promise(
    "beam_search", points=2, hint="The score without a penalty is the sum of log-probabilities."
)
def test_score(code: Student, draw: Draw) -> Cases:
    """With a length_penalty of 0, the score is the log-probability of the new tokens."""
    yield "the scores", scores(search(code, draw, ending, width=3))


@promise(
    "beam_search",
    points=4,
    hint="Divide by length ** length_penalty, of new tokens; and choose by that score.",
)
def test_length_penalty(code: Student, draw: Draw) -> Cases:
    """The log-probability is divided by the number of new tokens to the power of length_penalty."""
    for penalty in (0.5, 2.0):
        found = search(code, draw, ending, width=3, length_penalty=penalty)
        yield f"the new tokens for length_penalty = {penalty}", new(found)
        yield f"the scores for length_penalty = {penalty}", scores(found)


@promise("beam_search", hint="length_penalty: float = 1.0.")
def test_default_penalty(code: Student, draw: Draw) -> Cases:
    """length_penalty is 1 by default."""
    yield "the scores", scores(search(code, draw, ending, width=2, length_penalty=None))


@promise("beam_search", points=2, hint="At max_length the beams that are left are finished, too.")
def test_max_length(code: Student, draw: Draw) -> Cases:
    """At max_length, sequences without eos count like those with it."""
    for length in (1, 2, 3):
        found = search(code, draw, ending, width=3, max_length=length, length_penalty=1.0)
        yield f"the new tokens for max_length = {length}", new(found)


@promise(
    "best_continuations",
    hint="Make new tensors, and do not change the given ones.",
    word="code that does nothing changes nothing",
)
def test_changes_nothing(student: Student) -> None:
    """best_continuations leaves its arguments as they are."""
    laws.check_changes_nothing(
        student, "best_continuations", torch.randn(3), torch.randn(3, VOCAB), 4
    )


# --- helpers of the tests ------------------------------------------------------------------------


def parts(best: Any) -> Any:
    """Return the log-probabilities, beams and tokens of continuations."""
    return any_gradients(within(list(entry(best, kind=(tuple, list), count=3)), **SUMS))


def endless(tables: Tensor, eos: int) -> int:
    """Make eos unlikely everywhere, and return the maximal length of a search."""
    # The logits are a sum over all positions, of which the first one is always there.
    tables[:, 0, :, eos] += NEVER
    return STEPS


def ending(tables: Tensor, eos: int) -> int:
    """Make eos likely, and certain in the last of STEPS steps. Return a maximal length beyond that."""
    tables[:, 0, :, eos] += SOMETIMES
    tables[:, START + STEPS - 2, :, eos] += ALWAYS
    return STEPS + 3


def often(tables: Tensor, eos: int) -> int:
    """Make eos more likely, except in the first step, and return the maximal length of a search."""
    tables[:, START, :, eos] += SOMETIMES
    return STEPS


def search(code: Student, draw: Draw, change: Any, count: int = SEARCHES, **settings: Any) -> Any:
    """Return the results of several searches, each in a model of its own."""
    eos = draw.size(0, VOCAB)
    tables = draw.normal(count, START + STEPS + 4, VOCAB, VOCAB, dtype=torch.float64)
    max_length = change(tables, eos)
    start = draw.permutation(VOCAB)
    start = start[start != eos][:START]
    settings = {"max_length": max_length, "eos": eos, "length_penalty": 0.0, **settings}
    settings = {name: value for name, value in settings.items() if value is not None}
    return code.run("searched", tables, start, settings)


def new(found: Any, count: int = SEARCHES) -> Any:
    return [entry(found, i, "new") for i in range(count)]


def scores(found: Any) -> Any:
    return within([entry(found, i, "score") for i in range(SEARCHES)], **SUMS)
