"""Write attention from scratch: masks, several heads, and a cache of keys and values.

    scores  = query @ key.T / sqrt(d)          d is the size of a query and of a key
    weights = softmax of each row of scores    how much each query takes from each value
    output  = weights @ value

Without the division, the softmax of large scores would be nearly one-hot, and hardly any gradient would pass. A
mask hides keys from queries: the padding of a shorter sequence, or what comes later.

Not allowed: PyTorch's own attention (`F.scaled_dot_product_attention`, `nn.MultiheadAttention` and what is made
of them). `torch.softmax` and `nn.Linear` are fine.

Source: Vaswani et al. (2017), "Attention Is All You Need", sections 3.2.1 and 3.2.2.

What holds for every exercise: docs/every-exercise.md.
"""

# begin solution: imports
import math

import torch

# end solution
from torch import Tensor, nn


def causal_mask(queries: int, keys: int) -> Tensor:
    """Let each query look at its own position and at those before it: True for "may look".

    The result is a bool tensor (queries, keys). The queries are the last ones of a sequence of `keys`
    positions: `causal_mask(2, 3)` is `[[True, True, False], [True, True, True]]`. There is at least one query,
    and there are at most as many as keys.
    """
    # begin solution: compare the positions of keys and queries
    # The first query is at position keys - queries.
    positions = torch.arange(keys - queries, keys)
    return torch.arange(keys) <= positions[:, None]
    # end solution


def padding_mask(lengths: Tensor, size: int) -> Tensor:
    """Hide the padding behind each sequence: (batch, 1, 1, size), bool, True for the real positions.

    `lengths` (batch,), int64, are the numbers of real positions, from 0 to `size`. The two dimensions of size 1
    stand for heads and queries, so that `causal_mask(...) & padding_mask(...)` is a mask, too.
    """
    # begin solution: compare each position with the length
    positions = torch.arange(size, device=lengths.device)
    return positions < lengths[:, None, None, None]
    # end solution


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Give each query the mean of the values, weighted by how well their keys fit: (..., queries, width).

    `query` is (..., queries, d), `key` (..., keys, d) and `value` (..., keys, width), with the same leading
    dimensions.

    - The weights of a query are the softmax of its scores over the keys, right for scores of up to 1e4 in
      magnitude.
    - `mask` is a bool tensor that broadcasts to (..., queries, keys), True where a query may look. A hidden key
      has no weight: the softmax is that over the other keys.
    - A query that may look at no key gets zeros, not NaN, and adds nothing to the gradients.
    - Gradients reach `query`, `key` and `value`.
    """
    # begin solution: scores, softmax without the hidden keys, weighted mean
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is None:
        return torch.softmax(scores, dim=-1) @ value
    # The lowest finite number, not -inf, because the softmax of a row of -inf is NaN. Beside any other score,
    # its exponential is 0. In a completely hidden row all weights are equal, and are set to 0 afterwards.
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)
    return weights @ value
    # end solution


class MultiHeadAttention(nn.Module):
    """Self-attention with several heads, each within a slice of the features of its own.

    `query`, `key`, `value` and `output` are four `nn.Linear(d_model, d_model)`. Nothing else is in the state
    dict.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        """Create the four projections.

        Raises ValueError that names `num_heads` if `d_model` is not a multiple of it.
        """
        super().__init__()
        # begin solution: check num_heads, make four layers
        if d_model % num_heads != 0:
            raise ValueError(f"num_heads must divide d_model, got {num_heads} and {d_model}")
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)
        # end solution

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        cache: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Let the positions of `x` (batch, time, d_model) attend to each other: the output and a cache.

        1. Project `x` with `query`, `key` and `value`, and split each result into heads of
           `d_model // num_heads` consecutive features: (batch, num_heads, time, d_model // num_heads).
        2. If there is a `cache`, its keys and values come first: those of the positions before `x`.
        3. Attend in each head, with `mask`, which broadcasts to (batch, num_heads, time, keys), those of the
           cache included.
        4. Put the heads side by side again, in order, and project with `output`: (batch, time, d_model).

        The second result is the cache for the next call, a pair (keys, values) of all positions so far, each
        (batch, num_heads, keys, d_model // num_heads). So a sequence may come in pieces: with the cache and the
        causal mask, the outputs are those of the whole sequence at once. The layer itself remembers nothing.
        """
        # begin solution: project, split, cache, attend, join
        query, key, value = (
            projection(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        if cache is not None:
            old_key, old_value = cache
            key = torch.cat([old_key, key], dim=2)
            value = torch.cat([old_value, value], dim=2)
        heads = attention(query, key, value, mask)
        return self.output(heads.transpose(1, 2).flatten(2)), (key, value)
        # end solution
