# right: the module has attention of its own, by baddbmm and log-softmax, on one packed product of all three projections
import math

import torch
from torch import nn


def causal_mask(queries, keys):
    i = torch.arange(queries)[:, None] + (keys - queries)
    j = torch.arange(keys)[None, :]
    return ~(j > i)


def padding_mask(lengths, size):
    position = torch.arange(size, dtype=lengths.dtype)
    return torch.lt(position, lengths.reshape(-1, 1)).reshape(-1, 1, 1, size)


def softmax_of(scores, mask):
    if mask is None:
        return torch.log_softmax(scores, -1).exp()
    hidden = ~mask
    weights = torch.log_softmax(scores.masked_fill(hidden, -1e30), -1).exp()
    return torch.where(hidden, torch.zeros_like(weights), weights)


def attention(query, key, value, mask=None):
    leading, d = query.shape[:-2], query.shape[-1]
    q, k, v = (t.reshape(-1, *t.shape[-2:]) for t in (query, key, value))
    scores = torch.zeros(1, 1, 1, dtype=q.dtype)
    scores = torch.baddbmm(scores, q, k.transpose(1, 2), beta=0, alpha=1 / math.sqrt(d))
    weights = softmax_of(scores.reshape(*leading, *scores.shape[1:]), mask)
    return torch.bmm(weights.reshape(scores.shape), v).reshape(*leading, q.shape[1], v.shape[2])


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model / num_heads != d_model // num_heads:
            raise ValueError(f"cannot split {d_model} features into NUM_HEADS = {num_heads}")
        self.query, self.key, self.value, self.output = (
            nn.Linear(d_model, d_model) for _ in range(4)
        )
        self.sizes = (num_heads, d_model // num_heads)

    def forward(self, x, mask=None, cache=None):
        three = (self.query, self.key, self.value)
        weight = torch.cat([layer.weight for layer in three])
        bias = torch.cat([layer.bias for layer in three])
        packed = nn.functional.linear(x, weight, bias)
        packed = packed.reshape(*x.shape[:2], 3, *self.sizes).permute(2, 0, 3, 1, 4)
        q, k, v = packed.unbind(0)
        if cache is not None:
            k = torch.cat([cache[0], k], 2)
            v = torch.cat([cache[1], v], 2)
        scores = (q @ k.transpose(2, 3)) / math.sqrt(self.sizes[1])
        mixed = softmax_of(scores, mask) @ v
        return self.output(mixed.permute(0, 2, 1, 3).reshape(x.shape)), (k, v)
