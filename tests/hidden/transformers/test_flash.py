"""Tests of attention in tiles, of its gradients in tiles, and of the Function that has both."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import (
    Cases,
    Draw,
    any_gradients,
    assert_tensor,
    entry,
    laws,
    promise,
    within,
)
from grader.judge.student import Student

# Tolerances for sums in float32, in any order.
SUMS = {"rtol": 1e-4, "atol": 1e-4}
LARGEST_SCORE = 1e4
# Tiles have 8 * 8 scores. The scores of 8 queries and all keys would take 1536 bytes.
TIME, MORE_KEYS, BLOCK, TOO_LARGE = 48, 56, 8, 1536
NO_PAIR = "flash_forward does not return a pair: the output, and the logarithms."
NO_TRIPLE = "flash_backward does not return three gradients: one each for q, k and v."
ALL_KEYS = "Scores of all keys are in one exp or softmax: the keys come in blocks, too."
NOT_A_TILE = "There is a tensor as large as the scores (or a mask) of a block of queries and all keys, or more."


# --- the forward pass ----------------------------------------------------------------------------


@promise(
    "flash_forward", points=3, hint="softmax(q @ k.T / sqrt(d)) @ v, and logsumexp of the scores."
)
def test_one_tile(code: Student, draw: Draw) -> Cases:
    """If one tile holds all scores, the output is the output of attention."""
    yield from forward(code, "one tile", draw_inputs(draw, 5, 7, 4), 16)


# One feature, so that the scale is 1: a wrong scale fails only the test above.
@promise(
    "flash_forward",
    points=12,
    hint="shrink = exp(old maximum - new maximum) corrects the sum and the output so far.",
)
def test_tiles(code: Student, draw: Draw) -> Cases:
    """With several tiles the result is the same, wherever the highest score of a row is."""
    for block in (1, 2, 3):
        yield from forward(code, f"block = {block}", draw_inputs(draw, 6, 6, 1, scale=2.0), block)


@promise("flash_forward", hint="range(0, size, block), and slices that may be shorter.")
def test_uneven(code: Student, draw: Draw) -> Cases:
    """The block need not divide the numbers of queries and keys, which may differ."""
    for queries, keys in ((5, 7), (7, 2), (1, 4)):
        what = f"{queries} queries, {keys} keys and block = 3"
        yield from forward(code, what, draw_inputs(draw, queries, keys, 1), 3)


@promise(
    "flash_forward",
    points=3,
    hint="Compare positions in the sequence: where the tile begins, plus torch.arange.",
)
def test_causal(code: Student, draw: Draw) -> Cases:
    """If causal, a query looks at its own key and the keys before it, in every tile."""
    for block in (16, 1, 3, 4):
        inputs = draw_inputs(draw, 7, 7, 1)
        yield from forward(code, f"block = {block}, causal", inputs, block, causal=True)


@promise("flash_forward", points=4, hint="Subtract the running maximum before each exp.")
def test_large_scores(code: Student, draw: Draw) -> Cases:
    """The output is right for scores of up to 1e4 in magnitude, rising or falling."""
    ramp = torch.linspace(-LARGEST_SCORE, LARGEST_SCORE, 8)[:, None]
    for name, key in {"rising": ramp, "falling": -ramp, "low": ramp / 4 - 7000}.items():
        inputs = [torch.tensor([[0.5], [1.0]]), key, draw.normal(8, 1)]
        for block in (8, 2):
            yield from forward(code, f"{name} scores and block = {block}", inputs, block)
    inputs = [torch.ones(8, 1), ramp, draw.normal(8, 1)]
    yield from forward(code, "rising scores, causal", inputs, 2, causal=True)


@promise(
    "flash_forward", points=4, hint="(maximum + total.log()).squeeze(-1), after the last tile."
)
def test_logarithms(code: Student, draw: Draw) -> Cases:
    """The second result is L, (..., queries)."""
    for what, block, causal in (("one tile", 16, False), ("tiles", 2, False), ("causal", 2, True)):
        inputs = draw_inputs(draw, 2, 5, 5, 1)
        logarithms = pair(forward_of(code, inputs, block, causal=causal))[1]
        yield f"the result L for {what}", any_gradients(within(logarithms, **SUMS))


@promise("flash_forward", hint="Name dimensions from behind: q[..., i : i + block, :].")
def test_leading_dimensions(code: Student, draw: Draw) -> Cases:
    """Any leading dimensions are fine, and tensors may lie in memory in any way."""
    for leading in [(2, 3), (1,)]:
        inputs = draw_inputs(draw, *leading, 4, 5, 2)
        yield from forward(code, f"leading dimensions {leading}", inputs, 2)
    transposed = [x.mT.contiguous().mT for x in draw_inputs(draw, 2, 4, 5, 2)]
    yield from forward(code, "transposed tensors", transposed, 2)


@promise(
    "flash_forward",
    points=6,
    hint="Two loops; make the mask of one tile from its positions.",
    word="the sandbox says how large its tensors are",
)
def test_only_tiles(student: Student) -> None:
    """No scores and no mask are larger than a tile, also if causal."""
    for keys, causal in ((TIME, True), (MORE_KEYS, False)):
        inputs = draw_inputs(Draw(0), TIME, keys, 1)
        check_tiles(student.run("measured", "flash_forward", *inputs, BLOCK, causal))


@promise("flash_forward", hint="Name no dtype: torch.zeros_like(q), q.new_full(...).")
def test_float64(code: Student, draw: Draw) -> Cases:
    """In float64 the output has the precision of float64."""
    output = pair(forward_of(code, [x.double() for x in draw_inputs(draw, 5, 5, 1)], 2))[0]
    yield "the output", any_gradients(output)


@promise(
    "flash_forward",
    hint="q = q / sqrt(d) makes a new tensor, q /= sqrt(d) writes into your argument.",
    word="code that does nothing changes nothing",
)
def test_changes_nothing(student: Student) -> None:
    """q, k and v are left as they are."""
    laws.check_changes_nothing(student, "flash_forward", *draw_inputs(Draw(0), 4, 4, 2), 2, False)


# --- the backward pass ---------------------------------------------------------------------------


@promise("flash_backward", points=4, hint="Follow the formulas at the top, with one tile.")
def test_gradients_of_one_tile(code: Student, draw: Draw) -> Cases:
    """If one tile holds all scores, the three gradients are those of attention."""
    yield from backward(code, draw, "one tile", draw_inputs(draw, 5, 7, 4), 16)


@promise(
    "flash_backward",
    points=5,
    hint="Each tile adds to its rows of dQ and to its columns of dK and dV: +=.",
)
def test_gradients_of_tiles(code: Student, draw: Draw) -> Cases:
    """With several tiles the gradients are the same, whether the block divides the sizes or not."""
    for queries, keys, block in ((6, 6, 1), (6, 6, 2), (5, 7, 3)):
        what = f"{queries} queries, {keys} keys and block = {block}"
        yield from backward(code, draw, what, draw_inputs(draw, queries, keys, 1), block)


@promise("flash_backward", points=3, hint="Hide the same scores as in the forward pass.")
def test_causal_gradients(code: Student, draw: Draw) -> Cases:
    """If causal, keys and values that a query may not look at get no gradient from it."""
    for block in (16, 1, 3, 4):
        inputs = draw_inputs(draw, 7, 7, 1)
        yield from backward(code, draw, f"block = {block}, causal", inputs, block, causal=True)


@promise("flash_backward", hint="Name dimensions from behind: sum(dim=-1), transpose(-2, -1).")
def test_leading_dimensions_backward(code: Student, draw: Draw) -> Cases:
    """Any leading dimensions are fine in the backward pass, too."""
    inputs = draw_inputs(draw, 2, 3, 4, 5, 2)
    yield from backward(code, draw, "leading dimensions (2, 3)", inputs, 2)


@promise(
    "flash_backward",
    points=5,
    hint="Two loops; make the mask of one tile from its positions.",
    word="the sandbox says how large its tensors are",
)
def test_only_tiles_backward(student: Student) -> None:
    """No scores and no mask are larger than a tile in the backward pass either."""
    draw = Draw(0)
    for keys, causal in ((TIME, True), (MORE_KEYS, False)):
        inputs = draw_inputs(draw, TIME, keys, 1)
        given = (draw.normal(TIME, 1), *inputs, *attention(*inputs, causal=causal))
        check_tiles(student.run("measured", "flash_backward", *given, BLOCK, causal))


@promise(
    "flash_backward",
    hint="Add to tensors of your own: torch.zeros_like(q).",
    word="code that does nothing changes nothing",
)
def test_backward_changes_nothing(student: Student) -> None:
    """The arguments of flash_backward are left as they are."""
    draw = Draw(0)
    inputs = draw_inputs(draw, 4, 4, 2)
    given = (draw.normal(4, 2), *inputs, *attention(*inputs))
    laws.check_changes_nothing(student, "flash_backward", *given, 2, False)


# --- the Function --------------------------------------------------------------------------------


@promise(
    "FlashAttention",
    points=8,
    hint="class FlashAttention(torch.autograd.Function), and flash_attention as it was given.",
    word="a forward that returns any tensor passes, too",
)
def test_backward_is_used(code: Student, draw: Draw) -> Cases:
    """The gradients of flash_attention are those that FlashAttention.backward returns."""
    inputs, gradients = draw_inputs(draw, 4, 4, 2), list(draw_inputs(draw, 4, 4, 2))
    what = "the gradients, where backward returns drawn numbers"
    yield what, code.run("replaced", *inputs, gradients)


@promise(
    "FlashAttention",
    points=6,
    hint="ctx.save_for_backward(q, k, v, output, logarithms); block and causal as attributes of ctx.",
)
def test_function(code: Student, draw: Draw) -> Cases:
    """flash_attention has the output and the gradients of attention, causal or not."""
    for causal in (False, True):
        q, k, v = (draw.leaf(*x) for x in zip("qkv", draw_inputs(draw, 5, 5, 2), strict=True))
        output = code.function("flash_attention")(q, k, v, 2, causal)
        yield f"the output for causal = {causal}", within(output, **SUMS)


# --- helpers of the tests ------------------------------------------------------------------------


def draw_inputs(draw: Draw, *sizes: int, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v for sizes (..., queries, keys, d)."""
    *leading, queries, keys, d = sizes
    q, k = (
        draw.normal(*leading, queries, d, scale=scale),
        draw.normal(*leading, keys, d, scale=scale),
    )
    return q, k, draw.normal(*leading, keys, d)


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False) -> tuple[Tensor, Tensor]:
    """The output and the logarithms, which are arguments of the backward pass."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).tril() == 0, -math.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def check_tiles(report: object) -> None:
    most, sides = entry(report, "most", kind=int), entry(report, "sides", kind=list)
    assert MORE_KEYS not in sides, ALL_KEYS
    assert most < TOO_LARGE, NOT_A_TILE


def pair(answer: object) -> Any:
    return entry(answer, kind=(tuple, list), count=2, told=NO_PAIR)


def triple(answer: object) -> list[Tensor]:
    gradients = entry(answer, kind=(tuple, list), count=3, told=NO_TRIPLE)
    return [assert_tensor(gradient, what="a gradient") for gradient in gradients]


def forward_of(code: Student, inputs: Any, block: int, *, causal: bool = False) -> Any:
    return code.function("flash_forward")(*inputs, block, causal)


def forward(code: Student, what: str, inputs: Any, block: int, *, causal: bool = False) -> Cases:
    output = pair(forward_of(code, inputs, block, causal=causal))[0]
    yield f"the output for {what}", any_gradients(within(output, **SUMS))


def backward(
    code: Student, draw: Draw, what: str, inputs: Any, block: int, *, causal: bool = False
) -> Cases:
    """The three gradients, for a drawn gradient of the output."""
    given = (draw.normal(*inputs[0].shape), *inputs, *attention(*inputs, causal=causal))
    gradients = triple(code.function("flash_backward")(*given, block, causal))
    for name, gradient in zip("qkv", gradients, strict=True):
        yield f"the gradient of {name} for {what}", any_gradients(within(gradient, **SUMS))
