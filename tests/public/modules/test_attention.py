"""Small examples for masks, attention, and attention with several heads."""

from __future__ import annotations

import torch
from torch import nn

from grader.judge.checks import assert_close, assert_equal, entry, laws, promise
from grader.judge.student import Student

# A query and keys of two features. With the values the scores are 0 and sqrt(2) * log(3) / sqrt(2) = log(3).
QUERY = torch.tensor([[1.0, 1.0]])
KEYS = torch.tensor([[0.0, 0.0], [0.776836, 0.776836]])
VALUES = torch.tensor([[0.0, 8.0], [4.0, 0.0]])
NO_PAIR = "forward does not return a pair: the output, and the cache for the next call."
NO_CACHE = "The cache is not a pair of keys and values."


@promise("causal_mask", hint="Query i stands at position keys - queries + i, key j at position j.")
def test_example_causal(student: Student) -> None:
    """The last two of three positions may look at two and at three keys."""
    mask = student.function("causal_mask")(2, 3)
    assert_equal(
        mask, torch.tensor([[True, True, False], [True, True, True]]), what="causal_mask(2, 3)"
    )


@promise("padding_mask", hint="Position j is real where j < length; shape (batch, 1, 1, size).")
def test_example_padding(student: Student) -> None:
    """Sequences of 3, 1 and 0 positions, in a batch padded to 3."""
    real = torch.tensor([[True, True, True], [True, False, False], [False, False, False]])
    assert_equal(
        student.function("padding_mask")(torch.tensor([3, 1, 0]), 3),
        real[:, None, None, :],
        what="the mask of lengths 3, 1 and 0",
    )


@promise(
    "attention",
    points=2,
    hint="The scores are 0 and log(3) here, so that the weights are 1/4 and 3/4.",
)
def test_example_attention(student: Student) -> None:
    """With weights of 1/4 and 3/4 the values [0, 8] and [4, 0] give [3, 2]."""
    assert_close(
        student.function("attention")(QUERY, KEYS, VALUES),
        torch.tensor([[3.0, 2.0]]),
        rtol=1e-5,
        atol=1e-5,
    )


@promise("attention", hint="A hidden key has a weight of 0, and the others still add up to 1.")
def test_example_mask(student: Student) -> None:
    """A query that may look only at the first key gets the first value."""
    assert_close(
        student.function("attention")(QUERY, KEYS, VALUES, torch.tensor([[True, False]])),
        VALUES[:1],
        what="the output for the mask [[True, False]]",
    )


@promise(
    "attention", hint="Fill with a large negative number before the softmax, and with 0 after it."
)
def test_example_hidden_row(student: Student) -> None:
    """A query that may look at no key gets zeros."""
    assert_close(
        student.function("attention")(QUERY, KEYS, VALUES, torch.tensor([[False, False]])),
        torch.zeros(1, 2),
        what="the output for the mask [[False, False]]",
    )


@promise(
    "MultiHeadAttention.__init__", hint="self.query = nn.Linear(d_model, d_model), and three more."
)
def test_example_parameters(student: Student) -> None:
    """MultiHeadAttention(4, 2) has the four layers query, key, value and output."""
    layer = student.module("MultiHeadAttention", 4, 2)
    laws.check_parameters(layer, shapes(4), call="MultiHeadAttention(4, 2)")


@promise(
    "MultiHeadAttention.forward",
    points=2,
    hint="Features 0 and 1 are the first head, 2 and 3 the second one.",
    after="test_example_parameters",
)
def test_example_heads(student: Student) -> None:
    """Each of two heads attends within its own half of the features."""
    layer = identity(student)
    x = torch.tensor([[[0.0, 1.0, 100.0, 0.0], [100.0, 1.0, 0.0, 0.0]]])
    output = entry(layer(x), 0, told=NO_PAIR)
    # In the first head, both keys fit the first query equally, and the second query is sure of its own key.
    first = torch.tensor([[50.0, 1.0], [100.0, 1.0]])
    # In the second head, it is the other way round.
    second = torch.tensor([[100.0, 0.0], [50.0, 0.0]])
    assert_close(output, torch.cat([first, second], dim=-1)[None])


@promise(
    "MultiHeadAttention.forward",
    points=2,
    hint="torch.cat([old_keys, new_keys], dim=-2), and the same for the values.",
    after="test_example_parameters",
)
def test_example_cache(student: Student) -> None:
    """The cache after two calls holds the keys of both, in order, for each head."""
    layer = identity(student)
    x = torch.arange(8.0).reshape(1, 2, 4)
    cache = entry(layer(x[:, :1]), 1, kind=(tuple, list), told=NO_PAIR)
    both = entry(layer(x[:, 1:], cache=cache), 1, told=NO_PAIR)
    keys, values = entry(both, kind=(tuple, list), count=2, told=NO_CACHE)
    right = torch.tensor([[[[0.0, 1.0], [4.0, 5.0]], [[2.0, 3.0], [6.0, 7.0]]]])
    assert_close(keys, right, what="the keys of the cache")
    assert_close(values, right, what="the values of the cache")


def shapes(d_model: int) -> dict[str, list[int]]:
    layers = ("query", "key", "value", "output")
    weights = {f"{name}.weight": [d_model, d_model] for name in layers}
    biases = {f"{name}.bias": [d_model] for name in layers}
    return {**weights, **biases}


def identity(student: Student) -> nn.Module:
    """A layer of 4 features and 2 heads whose projections change nothing."""
    layer = student.module("MultiHeadAttention", 4, 2)
    parameters = laws.check_parameters(layer, shapes(4), call="MultiHeadAttention(4, 2)")
    with torch.no_grad():
        for parameter in parameters:
            parameter.copy_(torch.eye(4) if parameter.dim() == 2 else torch.zeros(4))
    return layer
