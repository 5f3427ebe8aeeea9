# right: Python over the rows and sets of tokens; draws by the inverse of the distribution function
import torch


def penalize_repetition(logits, tokens, penalty):
    out = logits.clone()
    for row, seen in zip(out, tokens.tolist()):
        for token in set(seen):
            row[token] = row[token] / penalty if row[token] > 0 else row[token] * penalty
    return out


def keep(row, tokens):
    out = torch.full_like(row, float("-inf"))
    out[tokens] = row[tokens]
    return out


def top_k_of(row, k):
    values = sorted(row.tolist(), reverse=True)
    lowest = values[:k][-1]
    return keep(row, [i for i, value in enumerate(row.tolist()) if value >= lowest])


def top_p_of(row, p):
    probs = torch.softmax(row.double(), 0).tolist()
    tokens, total = [], 0.0
    for token in sorted(range(len(probs)), key=lambda i: -probs[i]):
        tokens.append(token)
        total += probs[token]
        if total >= p:
            break
    return keep(row, tokens)


def keep_top_k(logits, k):
    rows = logits.reshape(-1, logits.shape[-1])
    return torch.stack([top_k_of(row, k) for row in rows]).reshape(logits.shape)


def keep_top_p(logits, p):
    rows = logits.reshape(-1, logits.shape[-1])
    return torch.stack([top_p_of(row, p) for row in rows]).reshape(logits.shape)


def sample(logits, *, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature <= 0:
        return logits.max(dim=1).indices
    # Equal rows are filtered once.
    rows, which = torch.unique(logits, dim=0, return_inverse=True)
    rows = rows / temperature
    rows = rows if top_k is None else keep_top_k(rows, top_k)
    rows = rows if top_p is None else keep_top_p(rows, top_p)
    upto = torch.softmax(rows.double(), dim=-1).cumsum(-1)[which]
    u = torch.rand(len(logits), 1, generator=generator, dtype=torch.float64)
    return (upto < u * upto[:, -1:]).sum(-1)
