# right: a loop over the heads with slices, einsum, and a softmax written with exp of the difference to the largest allowed score
import torch
from torch import nn


def causal_mask(queries, keys):
    rows = []
    for i in range(queries):
        seen = keys - queries + i + 1
        rows.append([True] * seen + [False] * (keys - seen))
    return torch.tensor(rows)


def padding_mask(lengths, size):
    steps = torch.arange(1, size + 1).view(1, 1, 1, size)
    return lengths.view(-1, 1, 1, 1) >= steps


def attention(query, key, value, mask=None):
    scores = torch.einsum("...id,...jd->...ij", query, key) / query.shape[-1] ** 0.5
    if mask is None:
        mask = scores == scores
    lowest = torch.full_like(scores, -1e30)
    shifted = scores - torch.where(mask, scores, lowest).max(dim=-1, keepdim=True).values.detach()
    powers = torch.where(mask, shifted, lowest).exp() * mask
    return powers @ value / powers.sum(-1, keepdim=True).clamp(min=1e-30)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        if d_model // num_heads * num_heads != d_model:
            raise ValueError("bad num_heads")
        super().__init__()
        self.h = num_heads
        self.d = d_model // num_heads
        self.output = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.query = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None, cache=None):
        q, k, v = self.query(x), self.key(x), self.value(x)
        keys, values, heads = [], [], []
        for i in range(self.h):
            own = slice(i * self.d, (i + 1) * self.d)
            key, value = k[..., own], v[..., own]
            if cache is not None:
                key = torch.cat((cache[0][:, i], key), 1)
                value = torch.cat((cache[1][:, i], value), 1)
            own_mask = mask
            if mask is not None and mask.dim() == 4:
                own_mask = mask[:, min(i, mask.shape[1] - 1)]
            heads.append(attention(q[..., own], key, value, own_mask))
            keys.append(key)
            values.append(value)
        together = torch.cat(heads, dim=-1)
        return self.output(together), [torch.stack(keys, 1), torch.stack(values, 1)]
