# right: Python over groups and tokens, with the statistics module and cases for the sign of the advantage
import statistics

import torch


def group_advantages(rewards, eps=1e-4):
    rows = []
    for group in rewards.tolist():
        mean = statistics.fmean(group)
        spread = statistics.stdev(group) if len(group) > 1 else 0.0
        rows.append([(reward - mean) / (spread + eps) for reward in group])
    return torch.tensor(rows, dtype=rewards.dtype)


def token_objective(new, old, advantage, clip):
    ratio = (new - float(old)).exp()
    if advantage >= 0:
        return advantage * min(ratio, 1 + clip) if ratio > 1 + clip else ratio * advantage
    return advantage * (1 - clip) if ratio < 1 - clip else ratio * advantage


def clipped_objective(log_probs, old_log_probs, advantages, clip=0.2):
    rows = []
    for new, old, advantage in zip(log_probs, old_log_probs, advantages.tolist()):
        tokens = [token_objective(n, o, advantage, clip) for n, o in zip(new, old)]
        # A clipped token is a number without a graph.
        rows.append(torch.stack([torch.as_tensor(t, dtype=new.dtype) for t in tokens]))
    return torch.stack(rows)


def kl_estimate(log_probs, reference_log_probs):
    with torch.no_grad():
        reference = reference_log_probs.clone()
    return torch.expm1(reference - log_probs) + log_probs - reference


def grpo_loss(
    log_probs,
    old_log_probs,
    reference_log_probs,
    advantages,
    mask,
    clip=0.2,
    beta=0.04,
):
    total = 0.0
    for i, kept in enumerate(mask):
        new, old, reference = (
            each[i : i + 1, kept] for each in (log_probs, old_log_probs, reference_log_probs)
        )
        objective = clipped_objective(new, old, advantages[i : i + 1], clip)
        total = total + (objective - beta * kl_estimate(new, reference)).mean()
    return -total / len(mask)
