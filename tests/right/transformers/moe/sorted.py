# right: choices sorted by expert, split by counts, put back by the inverse order
import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x)))


class MoE(nn.Module):
    def __init__(self, dim, experts, k):
        super().__init__()
        if k not in range(1, experts + 1):
            raise ValueError("k is not between 1 and the number of experts")
        self.num, self.k = experts, k
        self.router = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList()
        for _ in range(experts):
            self.experts.append(Expert(dim))

    def forward(self, x):
        logits = self.router(x)
        tokens = x.reshape(-1, x.shape[-1])
        p, chosen = torch.topk(logits.softmax(-1).reshape(len(tokens), self.num), self.k)
        p = p / p.sum(-1, keepdim=True)
        order = chosen.flatten().argsort()
        counts = chosen.flatten().bincount(minlength=self.num).tolist()
        parts = tokens.repeat_interleave(self.k, 0)[order].split(counts)
        done = torch.cat([e(part) for e, part in zip(self.experts, parts) if len(part)])
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        done = done[back].reshape(len(tokens), self.k, -1)
        return torch.einsum("tk,tkd->td", p, done).reshape(x.shape), logits


def load_balancing_loss(scores, k):
    scores = scores.reshape(-1, scores.shape[-1])
    n = scores.shape[-1]
    with torch.no_grad():
        f = nn.functional.one_hot(scores.topk(k).indices, n).float().mean((0, 1))
    return n * (f.to(scores.dtype) * scores.softmax(-1)).sum(-1).mean()
