"""Tests of masks, attention, and attention with several heads and a cache."""

from __future__ import annotations

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
    raises,
    within,
)
from grader.judge.student import Student

LAYER = "MultiHeadAttention"
# For attention itself: the numbers of queries and keys, and the size of a value.
QUERIES, KEYS, WIDTH = 5, 7, 3
# For the layer with several heads.
BATCH, TIME, HEADS = 2, 5, 3
# The size of a query where it matters. Elsewhere it is 1, whose square root is 1: then a wrong scale, or wrong
# features in a head, fail only the tests about them.
SIZE = 4
LARGEST_SCORE = 1e4
# Tolerances for several sums in float32, in any order.
SUMS = {"rtol": 1e-4, "atol": 1e-4}
NO_PAIR = "forward does not return a pair: the output, and the cache for the next call."
NO_CACHE = "The cache is not a pair of keys and values."
NAN_ROWS = "the softmax of a row of -inf alone is 0 / 0"


# --- the masks -----------------------------------------------------------------------------------


@promise("causal_mask", points=2, hint="Position j may be looked at from position i where j <= i.")
def test_causal_mask(code: Student, draw: Draw) -> Cases:
    """With as many queries as keys, each one may look at itself and at those before it."""
    size = draw.size(4, 9)
    yield "the mask", code.function("causal_mask")(size, size)


@promise("causal_mask", points=2, hint="The first query is at position keys - queries, not at 0.")
def test_causal_mask_of_the_last(code: Student, draw: Draw) -> Cases:
    """With fewer queries than keys, the queries are the last positions."""
    size = draw.size(5, 9)
    for queries in (1, draw.size(2, size)):
        mask = code.function("causal_mask")(queries, size)
        yield f"causal_mask({queries}, {size})", mask


@promise(
    "padding_mask",
    points=4,
    hint="Compare torch.arange(size) with lengths[:, None], and add two dimensions.",
)
def test_padding_mask(code: Student, draw: Draw) -> Cases:
    """The mask is True at the first `length` positions of each sequence, (batch, 1, 1, size)."""
    size = draw.size(6, 10)
    shorter = draw.integers(3, high=size).tolist()
    for lengths in ([0, size, *shorter], shorter):
        mask = code.function("padding_mask")(torch.tensor(lengths), size)
        yield f"the mask for lengths {lengths} and size {size}", mask


# --- attention -----------------------------------------------------------------------------------


@promise(
    "attention",
    points=10,
    hint="softmax(query @ key.transpose(-2, -1) / sqrt(d), dim=-1) @ value.",
)
def test_attention(code: Student, draw: Draw) -> Cases:
    """The output is the mean of the values, weighted by the softmax of the scaled scores."""
    yield "the output", code.function("attention")(*inputs(draw, size=2 * SIZE))


@promise(
    "attention",
    points=6,
    hint="Fill the scores of hidden keys before the softmax, so that it leaves them out.",
)
def test_mask(code: Student, draw: Draw) -> Cases:
    """A hidden key has no weight, and the softmax is taken over the other keys."""
    output = code.function("attention")(*inputs(draw), random_mask(draw, QUERIES, KEYS))
    yield "the output with a mask", output


@promise(
    "attention",
    points=2,
    hint="torch.softmax takes any scores. Fill with -inf, or with the lowest finite number.",
)
def test_large_scores(code: Student, draw: Draw) -> Cases:
    """The output is right for scores of up to 1e4 in magnitude, whatever a mask hides."""
    # In float64, because logsumexp itself rounds a float32 score of 1e4 to within 1e-3.
    query = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    key = torch.tensor([[-1.0], [0.5], [1.0], [1.0]], dtype=torch.float64) * LARGEST_SCORE
    value = draw.normal(4, WIDTH, dtype=torch.float64)
    output = code.function("attention")(query, key, value)
    laws.check_finite(output, what="the output for large scores", why="exp overflows there")
    yield "the output for large scores", output
    lowest = torch.tensor([[True, False, False, False], [False, False, True, True]])
    output = code.function("attention")(query, key, value, lowest)
    yield "the output where all scores but the lowest are hidden", output


@promise(
    "attention",
    points=3,
    hint="Name dimensions from behind: key.transpose(-2, -1), dim=-1.",
    after="test_attention",
)
def test_leading_dimensions(code: Student, draw: Draw) -> Cases:
    """Any leading dimensions are fine, such as batch and heads, and a mask broadcasts."""
    mask_shapes = {
        (2,): (1, KEYS),
        (2, 3): (2, 1, 1, KEYS),
        (1, 2, 2): (1, 2, 2, QUERIES, KEYS),
    }
    for leading, shape in mask_shapes.items():
        query, key, value = inputs(draw, *leading, size=SIZE)
        output = code.function("attention")(query, key, value, random_mask(draw, *shape))
        yield f"the output for a query of shape {tuple(query.shape)}", output


@promise(
    "attention",
    points=4,
    hint="The softmax of a row of -inf is NaN: fill with the lowest finite number.",
    after="test_mask",
)
def test_hidden_rows(code: Student, draw: Draw) -> Cases:
    """A query that may look at no key gets zeros, and does not affect the other queries."""
    output = code.function("attention")(*inputs(draw), mask_with_hidden_rows(draw))
    laws.check_finite(output, what="the output with rows that are hidden altogether", why=NAN_ROWS)
    yield "the output with rows that are hidden altogether", output


@promise(
    "attention",
    points=5,
    hint="Nothing on the way may leave the graph: no detach, no .data, no torch.no_grad().",
)
def test_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach query, key and value."""
    yield "the output", code.function("attention")(*leaves(draw))


@promise(
    "attention",
    points=3,
    hint="Zeros put over a NaN afterwards hide it from the output, not from the gradient.",
    after="test_hidden_rows",
)
def test_gradients_of_hidden_rows(code: Student, draw: Draw) -> Cases:
    """A query that may look at no key adds nothing to the gradients, and no NaN."""
    output = code.function("attention")(*leaves(draw), mask_with_hidden_rows(draw))
    yield "the output with rows that are hidden altogether", output


@promise(
    "attention",
    hint="Name no dtype: math.sqrt(d) is a Python number, and fits any of them.",
    after="test_attention",
)
def test_float64(code: Student, draw: Draw) -> Cases:
    """In float64 the result has float64's precision, also with a mask."""
    query, key, value = (tensor.double() for tensor in inputs(draw, size=SIZE))
    output = code.function("attention")(query, key, value, random_mask(draw, QUERIES, KEYS))
    yield "the output", output


@promise("attention", hint="Use reshape where you use view.", after="test_attention")
def test_non_contiguous(code: Student, draw: Draw) -> Cases:
    """The arguments need not be contiguous."""
    query, key, value = draw.normal(2, 2, SIZE), draw.normal(2, 3, SIZE), draw.normal(2, 3, WIDTH)
    for layout, given in laws.layouts_of(query).items():
        output = code.function("attention")(given, key, value)
        yield f"the output for a query {layout} in memory", output


@promise(
    "attention",
    hint="Compute with new tensors: no +=, no masked_fill_, on your arguments.",
    after="test_attention",
)
def test_attention_changes_nothing(student: Student) -> None:
    """The arguments are left as they are."""
    query, key, value = torch.randn(2, 2, 4), torch.randn(2, 3, 4), torch.randn(2, 3, 3)
    mask = torch.tensor([[True, False, True], [False, True, True]])
    laws.check_changes_nothing(student, "attention", query, key, value, mask)


# --- several heads -------------------------------------------------------------------------------


@promise(
    "MultiHeadAttention.__init__",
    points=2,
    hint="self.query = nn.Linear(d_model, d_model), and likewise key, value and output.",
)
def test_parameters(student: Student) -> None:
    """The layer has four linear layers, query, key, value and output, and nothing else."""
    layers = ("query", "key", "value", "output")
    shapes = {f"{name}.weight": [6, 6] for name in layers} | {
        f"{name}.bias": [6] for name in layers
    }
    layer = student.module(LAYER, 6, 3)
    laws.check_parameters(layer, shapes, call=f"{LAYER}(6, 3)")
    laws.check_state_dict(layer, shapes)
    assert not laws.observe(student, LAYER, 6, 3).was_seeded(), "A new layer sets a seed."


@promise(
    "MultiHeadAttention.__init__",
    hint="d_model % num_heads has to be 0: raise a ValueError.",
    word="the sandbox says that it raised",
)
def test_num_heads(code: Student, draw: Draw) -> Cases:
    """A num_heads that does not divide d_model is a ValueError that names it."""
    for sizes in ((6, 4), (8, 3)):
        refusal = raises(ValueError, "num_heads", code.module, LAYER, *sizes)
        yield f"{LAYER}({sizes[0]}, {sizes[1]})", refusal


@promise(
    "MultiHeadAttention.forward",
    points=8,
    hint="unflatten(-1, (num_heads, -1)) and transpose(1, 2); then back the same way.",
    after="test_parameters",
)
def test_heads(code: Student, draw: Draw) -> Cases:
    """Each head attends within its own consecutive features, and all go through `output`."""
    layer = new_layer(code, draw, SIZE)
    yield "the output", output_of(layer(draw.normal(BATCH, TIME, HEADS * SIZE)))


@promise(
    "MultiHeadAttention.forward",
    points=4,
    hint="Hand mask on to attention: it broadcasts to (batch, num_heads, time, keys).",
    after="test_parameters",
)
def test_heads_with_masks(code: Student, draw: Draw) -> Cases:
    """A causal mask and a padding mask hide keys in every head, and a mask may differ by head."""
    layer, x = new_layer(code, draw), draw.normal(BATCH, TIME, HEADS)
    masks = {
        "causal": causal(TIME),
        "padding": padding(TIME, 3),
        "head-by-head": random_mask(draw, BATCH, HEADS, TIME, TIME),
    }
    for name, mask in masks.items():
        yield f"the output with a {name} mask", output_of(layer(x, mask))


@promise(
    "MultiHeadAttention.forward",
    hint="Attend with your function attention, which knows what to do with hidden rows.",
    after=("test_hidden_rows", "test_heads_with_masks"),
)
def test_heads_with_hidden_rows(code: Student, draw: Draw) -> Cases:
    """A position that may look at no position makes no NaN in the layer."""
    layer, x = new_layer(code, draw), draw.normal(BATCH, TIME, HEADS)
    yield "the output for a sequence without real positions", output_of(layer(x, padding(TIME, 0)))


@promise(
    "MultiHeadAttention.forward",
    points=4,
    hint="The cache is (keys, values), projected and split into heads.",
    after="test_parameters",
)
def test_first_cache(code: Student, draw: Draw) -> Cases:
    """The cache of a first call holds its keys and values, split into heads."""
    layer = new_layer(code, draw)
    keys, values = cache_of(layer(draw.normal(BATCH, TIME, HEADS)))
    yield "the keys of the cache", any_gradients(within(keys, **SUMS))
    yield "the values of the cache", any_gradients(within(values, **SUMS))


@promise(
    "MultiHeadAttention.forward",
    points=6,
    hint="torch.cat([old, new], dim=-2), for keys and for values, before attention.",
    after="test_first_cache",
)
def test_pieces(code: Student, draw: Draw) -> Cases:
    """A sequence in pieces, each with the cache of the earlier ones, gives the same as the whole sequence."""
    layer, x = new_layer(code, draw), draw.normal(BATCH, 6, HEADS)
    # An early position of one sequence is padding, which the mask hides from later pieces, too.
    mask = causal(6).repeat(BATCH, 1, 1, 1)
    mask[1, ..., 1] = False
    mask[1, ..., 1, 1] = True
    cache = None
    for begin, end in ((0, 3), (3, 4), (4, 6)):
        answer = layer(x[:, begin:end], mask[..., begin:end, :end], cache)
        yield f"the output of positions {begin} to {end - 1}", output_of(answer)
        cache = cache_of(answer)


@promise(
    "MultiHeadAttention.forward",
    points=2,
    hint="Keep keys and values in the cache that you return, not in self.",
    after="test_first_cache",
)
def test_remembers_nothing(code: Student, draw: Draw) -> Cases:
    """Without a cache the result of a call does not depend on earlier calls."""
    layer = new_layer(code, draw)
    x, other = draw.normal(2, BATCH, TIME, HEADS)
    answer = layer(other, None, cache_of(layer(other)))
    yield "the output with a cache and no mask", output_of(answer)
    yield "the output after calls without and with a cache", output_of(layer(x))


@promise(
    "MultiHeadAttention.forward",
    points=2,
    hint="Call the four layers as they are, and keep their results in the graph.",
    after="test_parameters",
)
def test_gradients_of_parameters(code: Student, draw: Draw) -> Cases:
    """Gradients reach x and all four layers."""
    layer = new_layer(code, draw, dtype=torch.float64)
    # The bias of the keys adds the same to all scores of a query, so its gradient is only rounding.
    del draw.leaves["key.bias"]
    x = draw.normal(BATCH, TIME, HEADS, dtype=torch.float64, grad="x")
    answer = entry(layer(x), kind=(tuple, list), count=2, told=NO_PAIR)
    yield "the output", answer[0]


@promise(
    "MultiHeadAttention.forward",
    hint="Compute with new tensors: no x.mul_(), and no writing into the cache.",
)
def test_forward_changes_nothing(student: Student) -> None:
    """x, the mask, the cache and the layer are left as they are."""
    layer = student.module(LAYER, HEADS * SIZE, HEADS)
    keys, values = cache_of(layer(torch.randn(BATCH, 3, HEADS * SIZE)))
    x, cache = torch.randn(BATCH, 2, HEADS * SIZE), (keys.detach(), values.detach())
    laws.check_changes_nothing(student, layer, x, causal(5)[3:], cache, call="forward")


# --- helpers of the tests ------------------------------------------------------------------------


def inputs(draw: Draw, *leading: int, size: int = 1) -> list[Tensor]:
    """Queries and keys of this size, and values, with these leading dimensions."""
    shapes = ((QUERIES, size), (KEYS, size), (KEYS, WIDTH))
    return [draw.normal(*leading, *shape) for shape in shapes]


def leaves(draw: Draw) -> list[Tensor]:
    """Queries, keys and values that require a gradient."""
    names = ("query", "key", "value")
    return [draw.leaf(*pair) for pair in zip(names, inputs(draw), strict=True)]


def random_mask(draw: Draw, *shape: int) -> Tensor:
    """A mask with about half of the keys, and at least one for every query."""
    mask = draw.uniform(*shape) < 0.5
    mask[..., draw.size(0, shape[-1])] = True
    return mask


def mask_with_hidden_rows(draw: Draw) -> Tensor:
    """A mask in which two queries may look at no key."""
    mask = random_mask(draw, QUERIES, KEYS)
    mask[draw.permutation(QUERIES)[:2]] = False
    return mask


def causal(size: int) -> Tensor:
    """A causal mask for as many queries as keys."""
    return torch.ones(size, size, dtype=torch.bool).tril()


def padding(size: int, length: int) -> Tensor:
    """A padding mask in which the last sequence has `length` real positions."""
    mask = torch.ones(BATCH, 1, 1, size, dtype=torch.bool)
    mask[-1, ..., length:] = False
    return mask


def new_layer(code: Student, draw: Draw, size: int = 1, dtype: torch.dtype = torch.float32) -> Any:
    """A layer with heads of this size and drawn weights, so that nothing depends on the initialization."""
    return draw.fill(code.module(LAYER, HEADS * size, HEADS).to(dtype), scale=0.5)


def output_of(answer: object) -> Any:
    """The first result of forward, compared without its gradients."""
    output = entry(answer, kind=(tuple, list), count=2, told=NO_PAIR)[0]
    return any_gradients(within(output, **SUMS))


def cache_of(answer: object) -> tuple[Tensor, Tensor]:
    """The keys and values that forward returns for the next call."""
    cache = entry(answer, kind=(tuple, list), count=2, told=NO_PAIR)[1]
    keys, values = entry(cache, kind=(tuple, list), count=2, told=NO_CACHE)
    return assert_tensor(keys, what="the keys"), assert_tensor(values, what="the values")
