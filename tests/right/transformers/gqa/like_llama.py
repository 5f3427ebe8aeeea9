# right: repeat_kv with expand, an additive mask made in forward by other means, as in Hugging Face's Llama
import torch
import torch.nn as nn


def window_mask(queries: int, keys: int, window: int) -> torch.Tensor:
    q = torch.arange(queries).unsqueeze(1) + (keys - queries)
    k = torch.arange(keys).unsqueeze(0)
    return torch.logical_and(k <= q, k > q - window)


def repeat_kv(hidden, n_rep):
    batch, heads, length, size = hidden.shape
    hidden = hidden[:, :, None].expand(batch, heads, n_rep, length, size)
    return hidden.reshape(batch, heads * n_rep, length, size)


class GroupedQueryAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads, window):
        super().__init__()
        self.hd, rest = divmod(dim, heads)
        if rest:
            raise ValueError("heads")
        self.groups, rest = divmod(heads, kv_heads)
        if rest:
            raise ValueError("kv_heads")
        self.window = window
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim // self.groups, bias=False)
        self.value = nn.Linear(dim, dim // self.groups, bias=False)
        self.output = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        b, t, _ = x.size()
        q, k, v = (
            f(x).view(b, t, -1, self.hd).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        if cache is None:
            cache = (k[:, :, :0], v[:, :, :0])
        k = torch.cat((cache[0], k), 2)
        v = torch.cat((cache[1], v), 2)
        total = k.size(2)
        mask = torch.full((total, total), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)
        mask += torch.full((total, total), torch.finfo(x.dtype).min, dtype=x.dtype).tril(-self.window)
        scores = torch.matmul(q, repeat_kv(k, self.groups).mT) / self.hd**0.5 + mask[-t:]
        out = scores.softmax(-1).matmul(repeat_kv(v, self.groups))
        out = self.output(out.transpose(1, 2).contiguous().view(b, t, -1))
        first = max(total - self.window, 0)
        return out, (k.narrow(2, first, total - first), v.narrow(2, first, total - first))
