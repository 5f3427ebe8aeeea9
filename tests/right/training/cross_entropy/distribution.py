# right: torch.distributions for log p, boolean indexing, an early NaN
import math

import torch
from torch.distributions import Categorical


def cross_entropy(logits, targets, weight=None, label_smoothing=0.0, ignore_index=-100):
    if label_smoothing > 1 or label_smoothing < 0:
        raise ValueError("label_smoothing")
    num_classes = logits.shape[-1]
    mask = targets.ne(ignore_index)
    if not mask.any():
        return torch.full((), float("nan"), dtype=logits.dtype, device=logits.device)
    kept_logits, kept_targets = logits[mask], targets[mask]
    if kept_targets.min() < 0 or kept_targets.max() >= num_classes:
        raise ValueError(f"targets must be in [0, {num_classes})")
    rows = Categorical(logits=kept_logits, validate_args=False)
    weights = torch.ones(num_classes).to(logits) if weight is None else weight
    per_class = rows.logits * weights
    cost = -(1 - label_smoothing) * per_class[torch.arange(len(kept_targets)), kept_targets]
    cost = cost - label_smoothing * per_class.mean(dim=1)
    return cost.sum().div(weights[kept_targets].sum())


def looks_like_probabilities(outputs):
    ok = outputs.ge(0).all(dim=1) & torch.isclose(outputs.sum(dim=1), outputs.new_ones(()), atol=1e-4)
    return ok.numel() > 0 and ok.all().item()


def double_softmax_floor(num_classes):
    if num_classes < 1:
        raise ValueError("num_classes")
    logits = torch.zeros(num_classes, dtype=torch.float64)
    logits[0] = 1.0
    return (logits.logsumexp(0) - 1).item()
