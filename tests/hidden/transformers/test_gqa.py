"""Tests of the mask of a sliding window, and of grouped-query attention with its cache."""

from __future__ import annotations

from typing import Any

import torch

from grader.judge.checks import (
    Cases,
    Draw,
    any_gradients,
    assert_tensor,
    entry,
    laws,
    promise,
    raises,
    within,
)
from grader.judge.student import Student

LAYER = "GroupedQueryAttention"
BATCH, TIME, WINDOW = 2, 5, 3
# A window that hides nothing, because no sequence here is longer.
WIDE = 16
# Tolerances for sums in float32, in any order.
SUMS = {"rtol": 1e-4, "atol": 1e-4}
NO_PAIR = "forward does not return a pair: the output, and the cache for the next call."
NO_CACHE = "The cache is not a pair of keys and values."


# --- the mask ------------------------------------------------------------------------------------


@promise("window_mask", points=3, hint="Both: distance >= 0, and distance < window.")
def test_mask(code: Student, draw: Draw) -> Cases:
    """Each position looks at itself and at the window - 1 before it, and at nothing later."""
    size = draw.size(6, 10)
    for window in (1, 2, draw.size(3, 6), size + 2):
        mask = code.function("window_mask")(size, size, window)
        yield f"window_mask({size}, {size}, {window})", mask


@promise("window_mask", points=2, hint="The first query is at position keys - queries, not at 0.")
def test_mask_of_the_last(code: Student, draw: Draw) -> Cases:
    """With fewer queries than keys, the queries are the last positions."""
    size = draw.size(7, 10)
    for queries in (1, draw.size(2, 6)):
        for window in (2, size):
            mask = code.function("window_mask")(queries, size, window)
            yield f"window_mask({queries}, {size}, {window})", mask


# --- the layer -----------------------------------------------------------------------------------


@promise(
    "GroupedQueryAttention.__init__",
    points=2,
    hint="key and value are nn.Linear(dim, kv_heads * head_dim, bias=False).",
)
def test_parameters(student: Student) -> None:
    """The layer has four linear layers without bias, of which key and value are narrower."""
    names = ("query.weight", "key.weight", "value.weight", "output.weight")
    shapes = dict(zip(names, [(12, 12), (4, 12), (4, 12), (12, 12)], strict=True))
    layer = student.module(LAYER, 12, 6, 2, WINDOW)
    laws.check_parameters(layer, shapes, call=f"{LAYER}(12, 6, 2, {WINDOW})")
    laws.check_state_dict(layer, shapes)


@promise(
    "GroupedQueryAttention.__init__",
    hint="dim % heads and heads % kv_heads are 0, or raise a ValueError.",
    word="the sandbox says that it raised",
)
def test_errors(code: Student, draw: Draw) -> Cases:
    """heads that do not divide dim, or kv_heads that do not divide heads, are a ValueError."""
    for argument, sizes in {"heads": (8, 3, 1), "kv_heads": (12, 6, 4)}.items():
        refusal = raises(ValueError, argument, code.module, LAYER, *sizes, WINDOW)
        yield f"{LAYER}{(*sizes, WINDOW)}", refusal


# Only the last position counts here. It looks at all others, so that a wrong mask does not fail these tests.
@promise(
    "GroupedQueryAttention.forward",
    points=4,
    hint="unflatten(-1, (-1, head_dim)), transpose(1, 2), and divide by sqrt(head_dim).",
)
def test_heads(code: Student, draw: Draw) -> Cases:
    """With as many kv_heads as heads, each head attends within its own features."""
    layer = draw.fill(code.module(LAYER, 12, 3, 3, WIDE), scale=0.5)
    yield "the output of the last position", last(layer(draw.normal(BATCH, TIME, 12)))


@promise(
    "GroupedQueryAttention.forward",
    points=5,
    hint="key.repeat_interleave(heads // kv_heads, dim=1), and the same for value.",
)
def test_groups(code: Student, draw: Draw) -> Cases:
    """Consecutive query heads share a head of keys and values."""
    for heads, kv_heads in ((6, 2), (6, 3), (4, 1)):
        layer = new_layer(code, draw, heads, heads, kv_heads, WIDE)
        what = f"the output of the last position for {heads} heads and {kv_heads} kv_heads"
        yield what, last(layer(draw.normal(BATCH, TIME, heads)))


# One feature and one head, so that wrong heads or a wrong scale do not fail the tests below.
@promise(
    "GroupedQueryAttention.forward", points=3, hint="masked_fill(~mask, -inf) before the softmax."
)
def test_window(code: Student, draw: Draw) -> Cases:
    """A position looks back as far as the window, and not ahead."""
    for window in (1, 2, WINDOW, WIDE):
        layer = new_layer(code, draw, 1, 1, 1, window)
        yield f"the output for window = {window}", output(layer(draw.normal(BATCH, 7, 1)))


@promise(
    "GroupedQueryAttention.forward",
    points=4,
    hint="Cache the results of key and value, split into heads: the last `window`, not yet repeated.",
)
def test_cache(code: Student, draw: Draw) -> Cases:
    """The cache has the keys and values of the last positions, at most window, for each kv head."""
    layer = new_layer(code, draw, 8, 4, 2, WINDOW)
    for time in (WINDOW - 1, WINDOW, WINDOW + 2):
        keys, values = cache_of(layer(draw.normal(BATCH, time, 8)))
        yield f"the keys in the cache after {time} positions", keys
        yield f"the values in the cache after {time} positions", values


@promise(
    "GroupedQueryAttention.forward",
    points=4,
    hint="torch.cat([old, new], dim=2), before you attend.",
)
def test_steps(code: Student, draw: Draw) -> Cases:
    """A sequence that comes one position at a time gives the outputs of the whole sequence."""
    # Nothing falls out of the window, so this test needs no mask.
    yield from pieces(code, draw, [1] * 7, WIDE)


@promise(
    "GroupedQueryAttention.forward",
    points=4,
    hint="Trim the cache that you return, not the keys that you attend to: each position has its own window.",
)
def test_pieces(code: Student, draw: Draw) -> Cases:
    """Pieces of several positions, also longer than the window, give the outputs of the whole sequence."""
    yield from pieces(code, draw, [2, 2, 5, 1, 4], WINDOW)


@promise(
    "GroupedQueryAttention.forward", points=2, hint="torch.cat([old, new], dim=2)[:, :, -window:]."
)
def test_rolls(code: Student, draw: Draw) -> Cases:
    """The cache that later calls return has the last positions, too, with the oldest first."""
    layer = new_layer(code, draw, 1, 1, 1, WINDOW)
    cache = None
    for time in (2, 2, 1, 4):
        answer = layer(draw.normal(BATCH, time, 1), cache)
        cache = pair(answer)[1]
        keys, values = cache_of(answer)
        yield f"the keys in the cache after a piece of {time}", keys
        yield f"the values in the cache after a piece of {time}", values


@promise(
    "GroupedQueryAttention.forward",
    points=3,
    hint="Call the four layers as they are, and keep their results in the graph.",
)
def test_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach x and the four layers."""
    layer = new_layer(code, draw, 4, 4, 2, WIDE)
    outputs = pair(layer(draw.normal(BATCH, TIME, 4, grad="x")))[0]
    yield "the output of the last position", within(outputs[:, -1:], **SUMS)


@promise(
    "GroupedQueryAttention.forward",
    hint="Make new tensors with torch.cat: do not write into the cache, and do not keep it in self.",
    word="code that does nothing changes nothing",
)
def test_changes_nothing(student: Student) -> None:
    """x, the cache and the layer are left as they are."""
    layer = student.module(LAYER, 4, 4, 2, WINDOW)
    # A full cache, in which a new position could overwrite the oldest one.
    with torch.no_grad():
        cache = pair(layer(torch.randn(BATCH, WINDOW, 4)))[1]
    laws.check_changes_nothing(student, layer, torch.randn(BATCH, 1, 4), cache, call="forward")


@promise("GroupedQueryAttention.forward", hint="Return the cache, and keep nothing in self.")
def test_remembers_nothing(code: Student, draw: Draw) -> Cases:
    """A call without a cache begins a new sequence, whatever came before."""
    layer = new_layer(code, draw, 1, 1, 1, WIDE)
    for number in (1, 2):
        yield f"the output of call {number}", last(layer(draw.normal(BATCH, TIME, 1)))


# --- helpers of the tests ------------------------------------------------------------------------


def new_layer(code: Student, draw: Draw, *sizes: int) -> Any:
    """A layer with drawn weights. `output` is the identity, so that a mistake there fails only `test_heads`."""
    layer = draw.fill(code.module(LAYER, *sizes), scale=0.5)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.endswith("output.weight"):
                parameter.copy_(torch.eye(len(parameter)))
            elif name.endswith("bias"):  # there should be none (see `test_parameters`)
                parameter.zero_()
    return layer


def pair(answer: object) -> Any:
    return entry(answer, kind=(tuple, list), count=2, told=NO_PAIR)


def output(answer: object) -> Any:
    """The first result of forward, compared without its gradients."""
    return any_gradients(within(pair(answer)[0], **SUMS))


def last(answer: object) -> Any:
    """The output of the last position."""
    outputs = assert_tensor(pair(answer)[0], what="the output")
    assert outputs.dim() == 3, "The output is not (batch, time, dim)."
    return any_gradients(within(outputs[:, -1:], **SUMS))


def cache_of(answer: object) -> list[Any]:
    """The keys and values that forward returns for the next call."""
    cache = entry(pair(answer)[1], kind=(tuple, list), count=2, told=NO_CACHE)
    return [any_gradients(within(tensor, **SUMS)) for tensor in cache]


def pieces(code: Student, draw: Draw, times: list[int], window: int) -> Cases:
    """The outputs of a sequence in pieces, each with the cache of the earlier ones."""
    layer, cache = new_layer(code, draw, 1, 1, 1, window), None
    for number, time in enumerate(times, start=1):
        answer = layer(draw.normal(BATCH, time, 1), cache)
        yield f"the output of piece {number} of {times}", output(answer)
        cache = pair(answer)[1]
