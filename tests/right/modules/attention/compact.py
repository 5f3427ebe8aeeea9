# right: plain and short; most of the wrong answers are changes of it
import math

import torch
from torch import nn


def causal_mask(queries, keys):
    return torch.ones(queries, keys).tril(keys - queries).bool()


def padding_mask(lengths, size):
    return (torch.arange(size) < lengths[:, None])[:, None, None, :]


def attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    weights = weights * mask
    return weights @ value


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("num_heads does not divide d_model")
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, x, mask=None, cache=None):
        q = self.split(self.query(x))
        k = self.split(self.key(x))
        v = self.split(self.value(x))
        if cache is not None:
            k = torch.cat([cache[0], k], dim=-2)
            v = torch.cat([cache[1], v], dim=-2)
        heads = attention(q, k, v, mask)
        joined = heads.transpose(1, 2).flatten(-2)
        return self.output(joined), (k, v)
