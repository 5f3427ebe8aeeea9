# right: loops over positions and heads, each looking at a slice of keys; no mask at all; a detached cache
import math

import torch
from torch import nn


def window_mask(queries, keys, window):
    mask = torch.zeros((queries, keys), dtype=torch.bool)
    for row in range(queries):
        here = keys - queries + row
        mask[row, max(here - window + 1, 0) : here + 1] = True
    return mask


class GroupedQueryAttention(nn.Module):
    def __init__(self, dim: int, heads: int, kv_heads: int, window: int):
        super().__init__()
        if dim % heads != 0:
            raise ValueError("dim is no multiple of heads")
        if heads % kv_heads != 0:
            raise ValueError("heads is no multiple of kv_heads")
        self.heads, self.kv_heads, self.window = heads, kv_heads, window
        self.head_dim = dim // heads
        self.query = nn.Linear(dim, dim, False)
        self.key = nn.Linear(dim, kv_heads * self.head_dim, False)
        self.value = nn.Linear(dim, kv_heads * self.head_dim, False)
        self.output = nn.Linear(dim, dim, False)

    def forward(self, x, cache=None):
        old = 0 if cache is None else cache[0].size(2)
        q = torch.stack(self.query(x).split(self.head_dim, -1), 1)
        k = torch.stack(self.key(x).split(self.head_dim, -1), 1)
        v = torch.stack(self.value(x).split(self.head_dim, -1), 1)
        if old:
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        positions = []
        for t in range(x.size(1)):
            end = old + t + 1
            begin = max(0, end - self.window)
            outputs = []
            for head in range(self.heads):
                kv = head * self.kv_heads // self.heads
                near = k[:, kv, begin:end]
                score = (near * q[:, head, t : t + 1]).sum(-1) / math.sqrt(self.head_dim)
                weights = torch.exp(score - score.logsumexp(1, keepdim=True))
                outputs.append((weights.unsqueeze(-1) * v[:, kv, begin:end]).sum(1))
            positions.append(torch.cat(outputs, -1))
        cache = tuple(tensor.detach()[:, :, -self.window :] for tensor in (k, v))
        return self.output(torch.stack(positions, 1)), cache
