# right: a Python loop over tokens, experts stacked, one-hot counts
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
        if k < 1 or k > experts:
            raise ValueError(f"{k=}")
        self.router = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList([Expert(dim) for _ in range(experts)])
        self.k = k

    def forward(self, x):
        scores = self.router(x)
        flat_scores, outputs = scores.view(-1, len(self.experts)), []
        for token, p in zip(x.reshape(-1, x.shape[-1]), flat_scores.softmax(-1)):
            chosen = p.argsort(descending=True)[: self.k]
            mixed = sum(p[i] * self.experts[i](token[None])[0] for i in chosen.tolist())
            outputs.append(mixed / p[chosen].sum())
        return torch.stack(outputs).view(x.shape), scores


def load_balancing_loss(scores, k):
    p = scores.flatten(0, -2).softmax(-1)
    chosen = torch.zeros_like(p).scatter(1, p.topk(k, dim=1).indices, 1.0)
    f = chosen.mean(0) / k
    return len(f) * torch.dot(f.detach(), p.mean(0))
