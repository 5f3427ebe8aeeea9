# right: a mask that is added, heads in a loop, and a cache that is a NamedTuple
import math
from typing import NamedTuple
import torch
from torch import nn, Tensor


class KV(NamedTuple):
    keys: Tensor
    values: Tensor


def window_mask(queries: int, keys: int, window: int) -> Tensor:
    offset = keys - queries
    full = torch.ones(queries, keys, dtype=torch.bool)
    return full.tril(offset).triu(offset - window + 1)


class GroupedQueryAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads, window):
        super().__init__()
        if dim % heads:
            raise ValueError(f"heads must divide dim, got {heads} and {dim}")
        if heads % kv_heads:
            raise ValueError(f"heads must be a multiple of kv_heads, got {heads} and {kv_heads}")
        self.heads, self.kv_heads, self.window = heads, kv_heads, window
        self.head_dim = dim // heads
        for name, out in dict(
            query=dim, key=kv_heads * self.head_dim, value=kv_heads * self.head_dim, output=dim
        ).items():
            self.add_module(name, nn.Linear(dim, out, bias=False))

    def forward(self, x, cache=None):
        b, t, c = x.shape
        split = lambda y: y.unflatten(-1, (-1, self.head_dim)).permute(0, 2, 1, 3)
        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        past = 0
        if cache is not None:
            pk, pv = cache.keys, cache.values
            past = pk.size(2)
            k, v = torch.cat([pk.detach(), k], 2), torch.cat([pv.detach(), v], 2)
        outs = []
        per = self.heads // self.kv_heads
        bias = torch.zeros(t, past + t, dtype=x.dtype, device=x.device)
        bias[~window_mask(t, past + t, self.window).to(x.device)] = -math.inf
        for h in range(self.heads):
            kh, vh = k[:, h // per], v[:, h // per]
            weights = torch.softmax(
                torch.baddbmm(
                    bias.expand(b, -1, -1), q[:, h], kh.mT, alpha=1 / math.sqrt(self.head_dim)
                ),
                dim=-1,
            )
            outs.append(weights @ vh)
        first = max(0, past + t - self.window)
        return self.output(torch.cat(outs, dim=-1)), KV(
            k[:, :, first:].clone(), v[:, :, first:].clone()
        )
