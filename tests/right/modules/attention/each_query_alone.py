# right: each query by itself with the keys that it may look at, chosen by an index; a list of heads made by chunk
import torch
from torch import nn


def causal_mask(queries, keys):
    whole = torch.tril(torch.ones((keys, keys), dtype=torch.uint8)) == 1
    return whole[keys - queries :]


def padding_mask(lengths, size):
    rows = [torch.arange(size) < length for length in lengths]
    return torch.stack(rows).unsqueeze(1).unsqueeze(1)


def one_query(q, k, v, allowed):
    k, v = k[allowed], v[allowed]
    if not len(k):
        return q.new_zeros(v.shape[-1])
    weights = torch.softmax((k * q).sum(-1) / q.numel() ** 0.5, dim=0)
    return (weights[:, None] * v).sum(0)


def attention(query, key, value, mask=None):
    if query.dim() > 2:
        if mask is not None:
            mask = mask.expand(*query.shape[:-1], key.shape[-2])
        masks = [None] * len(query) if mask is None else mask
        return torch.stack([attention(*each) for each in zip(query, key, value, masks)])
    if mask is None:
        mask = torch.ones(1, dtype=torch.bool)
    mask = mask.expand(len(query), len(key))
    rows = [one_query(q, key, value, allowed) for q, allowed in zip(query, mask)]
    return torch.stack(rows)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        if d_model % num_heads > 0:
            raise ValueError("d_model has to be a multiple of num_heads")
        self.num_heads = num_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None, cache=None):
        q, k, v = (
            torch.stack(layer(x).chunk(self.num_heads, dim=-1), dim=1)
            for layer in (self.query, self.key, self.value)
        )
        if cache is not None:
            k, v = (torch.cat(both, 2) for both in zip(cache, (k, v)))
        heads = attention(q, k, v, mask)
        return self.output(torch.cat(list(heads.unbind(1)), dim=-1)), (k, v)
