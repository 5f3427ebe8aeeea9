# right: as in Hugging Face's warpers: sorted upward, what is removed scattered back; exponential race instead of multinomial
import torch


def penalize_repetition(logits, tokens, penalty):
    score = torch.gather(logits, 1, tokens)
    score = torch.where(score < 0, score * penalty, score / penalty)
    out = logits.clone()
    return out.scatter_(1, tokens, score)


def keep_top_k(logits, k):
    k = min(k, logits.size(-1))
    indices_to_remove = logits < torch.topk(logits, k)[0][..., -1, None]
    return logits.masked_fill(indices_to_remove, -float("Inf"))


def keep_top_p(logits, p):
    sorted_logits, sorted_indices = torch.sort(logits, descending=False)
    cumulative = sorted_logits.softmax(dim=-1).cumsum(dim=-1)
    remove = cumulative <= (1 - p)
    remove[..., -1:] = 0
    return logits.masked_fill(remove.scatter(-1, sorted_indices, remove), -float("Inf"))


def sample(logits, *, temperature=1.0, top_k=None, top_p=None, generator=None):
    if temperature == 0.0:
        return torch.argmax(logits, -1)
    logits = logits / max(temperature, 1e-5)
    if top_k:
        logits = keep_top_k(logits, top_k)
    if top_p:
        logits = keep_top_p(logits, top_p)
    probs = torch.nn.functional.softmax(logits, -1)
    q = torch.empty_like(probs).exponential_(1, generator=generator)
    return torch.argmax(probs / q, dim=-1)
