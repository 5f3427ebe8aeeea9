# right: vmap over rows, sorted by weight, softplus for the log of sums
import math

import torch
from torch.func import vmap


def log_p(row):
    return row - torch.logsumexp(row, -1)


def cross_entropy(logits, targets, weight=None, label_smoothing=0.0, ignore_index=-100):
    """The weighted mean."""
    if label_smoothing < 0 or label_smoothing > 1:
        raise ValueError("label_smoothing: 0 to 1")
    keep = torch.nonzero(targets - ignore_index, as_tuple=True)[0]
    if keep.numel() == 0:
        return logits[keep].sum() / 0
    picked = targets[keep]
    outside = [t for t in picked.tolist() if t < 0 or t >= logits.shape[1]]
    if outside:
        raise ValueError(f"targets {outside} are outside")
    weight = torch.ones(logits.shape[1], dtype=logits.dtype) if weight is None else weight

    def cost(row, target):
        own = log_p(row)
        return -(1 - label_smoothing) * (weight * own).take(target) - label_smoothing * (weight @ own) / len(row)

    return vmap(cost)(logits[keep], picked).sum() / weight.index_select(0, picked).sum()


def looks_like_probabilities(outputs):
    return any(True for _ in outputs) and not bool(
        (~(outputs >= 0)).any() | ~((outputs.double().sum(1) - 1).abs() <= 1e-4).all()
    )


def double_softmax_floor(num_classes):
    if num_classes < 1:
        raise ValueError("a num_classes below 1")
    return math.log((math.e + num_classes - 1) / math.e)
