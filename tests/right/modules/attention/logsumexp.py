# right: the softmax as exp(scores - logsumexp), the projections added in a loop, and einsum
import math
import torch
from torch import nn


def causal_mask(queries, keys):
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def padding_mask(lengths, size):
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, None, :]


def attention(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", query, key) / math.sqrt(query.shape[-1])
    if mask is None:
        return torch.exp(scores - scores.logsumexp(-1, keepdim=True)) @ value
    low = torch.finfo(scores.dtype).min
    return (torch.where(mask, scores, low).softmax(-1) * mask) @ value


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("num_heads does not divide d_model")
        self.heads = num_heads
        for n in ("query", "key", "value", "output"):
            self.add_module(n, nn.Linear(d_model, d_model))

    def forward(self, x, mask=None, cache=None):
        b, t, d = x.shape
        q, k, v = (
            f(x).view(b, t, self.heads, d // self.heads).permute(0, 2, 1, 3)
            for f in (self.query, self.key, self.value)
        )
        if cache:
            k, v = (torch.cat(pair, -2) for pair in zip(cache, (k, v)))
        y = attention(q, k, v, mask)
        return self.output(y.permute(0, 2, 1, 3).reshape(b, t, d)), (k, v)
