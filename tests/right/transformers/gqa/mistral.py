# right: queries grouped by einsum and keys not repeated, a mask of two triangles, like Mistral's code
import torch
from torch import nn


def window_mask(queries, keys, window):
    full = torch.ones(keys, keys, dtype=torch.bool)
    return torch.triu(torch.tril(full), diagonal=1 - window)[keys - queries :]


class GroupedQueryAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads, window):
        super().__init__()
        if dim % heads or heads % kv_heads:
            raise ValueError(f"{dim=} must be a multiple of {heads=}, and that of {kv_heads=}")
        self.n_heads, self.n_kv_heads, self.window = heads, kv_heads, window
        self.query, self.output = (nn.Linear(dim, dim, bias=False) for _ in range(2))
        self.key, self.value = (
            nn.Linear(dim, kv_heads * (dim // heads), bias=False) for _ in range(2)
        )

    def forward(self, x, cache=None):
        b, t, dim = x.shape
        hd = dim // self.n_heads
        q = self.query(x).view(b, t, self.n_kv_heads, self.n_heads // self.n_kv_heads, hd)
        k = self.key(x).view(b, t, self.n_kv_heads, hd).permute(0, 2, 1, 3)
        v = self.value(x).view(b, t, self.n_kv_heads, hd).permute(0, 2, 1, 3)
        if cache is not None:
            k, v = (torch.cat(both, dim=-2) for both in zip(cache, (k, v)))
        scores = torch.einsum("btngd,bnsd->bngts", q * hd**-0.5, k)
        hidden = window_mask(t, k.shape[2], self.window).logical_not()
        scores = scores + torch.zeros_like(scores).masked_fill(hidden, float("-inf"))
        out = torch.einsum("bngts,bnsd->btngd", torch.softmax(scores.float(), -1).type_as(q), v)
        start = max(0, k.shape[2] - self.window)
        return self.output(out.reshape(b, t, dim)), [k[:, :, start:].clone(), v[:, :, start:].clone()]
