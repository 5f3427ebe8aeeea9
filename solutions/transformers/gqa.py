"""Write grouped-query attention with a sliding window: the attention of Mistral 7B, with its small cache.

A model that writes text keeps the keys and values of all earlier positions. Two ideas make this cache small:

- *Grouped queries*: there are fewer heads of keys and values than heads of queries. Consecutive query heads
  share one. With 6 heads and 2 kv_heads, query heads 0, 1, 2 use kv head 0, and 3, 4, 5 use kv head 1.
- A *sliding window*: a position looks at itself and the `window - 1` positions before it. So the cache rolls:
  it keeps the last `window` positions, however long the text is.

Otherwise it is causal attention as you know it: each head computes
softmax(query @ key.T / sqrt(head_dim)) @ value, where head_dim = dim / heads.

Not allowed: PyTorch's own attention (`F.scaled_dot_product_attention` and what is made of it).

Source: Ainslie et al. (2023), "GQA", section 2.2; Jiang et al. (2023), "Mistral 7B", section 2.

What holds for every exercise: docs/every-exercise.md.
"""

# begin solution: imports
import math

# end solution
import torch
from torch import Tensor, nn

Cache = tuple[Tensor, Tensor]


def window_mask(queries: int, keys: int, window: int) -> Tensor:
    """Return which keys each query may look at: a bool tensor (queries, keys), True for "may look".

    A query looks at its own position and at the `window - 1` before it, and at nothing later. The queries are
    the last ones of the `keys` positions: `window_mask(2, 4, 2)` is

        [[False, True, True, False], [False, False, True, True]]

    There is at least one query, there are at most as many queries as keys, and `window` is at least 1.
    """
    # begin solution: look at the distance of each query and key
    positions = torch.arange(keys - queries, keys)
    distances = positions[:, None] - torch.arange(keys)
    return (distances >= 0) & (distances < window)
    # end solution


class GroupedQueryAttention(nn.Module):
    """Causal self-attention with shared keys and values, and a sliding window.

    `query`, `key`, `value` and `output` are four `nn.Linear` without bias. Nothing else is in the state dict.
    """

    def __init__(self, dim: int, heads: int, kv_heads: int, window: int) -> None:
        """Make the layers: `query` and `output` from dim to dim, `key` and `value` to kv_heads * head_dim.

        Raises ValueError that names `heads` if `dim` is not a multiple of it, and `kv_heads` if `heads` is not
        a multiple of `kv_heads`.
        """
        super().__init__()
        # begin solution: check the heads, make layers
        if dim % heads != 0:
            raise ValueError(f"heads must divide dim, got {heads} and {dim}")
        if heads % kv_heads != 0:
            raise ValueError(f"kv_heads must divide heads, got {kv_heads} and {heads}")
        self.head_dim, self.sharing, self.window = dim // heads, heads // kv_heads, window
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.value = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.output = nn.Linear(dim, dim, bias=False)
        # end solution

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Cache]:
        """Return the output (batch, time, dim) for `x` (batch, time, dim), and the cache for the next call.

        - Head i of a projection has the consecutive features i * head_dim to (i + 1) * head_dim - 1. The heads
          are side by side again, in order, before `output`.
        - `cache` is what the call before returned, if `x` continues a sequence. So a sequence may come in
          pieces of any length, longer than the window or not: the outputs are those of the whole sequence.
        - The cache is a pair (keys, values) of the last `window` positions, or of all so far if there are
          fewer, oldest first: each (batch, kv_heads, positions, head_dim).
        - The layer itself remembers nothing, and `cache` is left as it is. Gradients reach `x` and the four
          layers. Whether they also reach earlier pieces, through the cache, is up to you.
        """
        # begin solution: project, cache, share, attend
        query, key, value = (
            projection(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for projection in (self.query, self.key, self.value)
        )
        if cache is not None:
            key = torch.cat([cache[0], key], dim=2)
            value = torch.cat([cache[1], value], dim=2)
        # Trimmed only for the next call: the first of several new positions still look at the dropped keys.
        cache = key[:, :, -self.window :], value[:, :, -self.window :]
        # Neighbors share: 0, 0, 0, 1, 1, 1. (`repeat` would give 0, 1, 0, 1, 0, 1.)
        key = key.repeat_interleave(self.sharing, dim=1)
        value = value.repeat_interleave(self.sharing, dim=1)
        scores = query @ key.transpose(-2, -1) / math.sqrt(self.head_dim)
        mask = window_mask(query.shape[2], key.shape[2], self.window).to(x.device)
        weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
        return self.output((weights @ value).transpose(1, 2).flatten(2)), cache
        # end solution
