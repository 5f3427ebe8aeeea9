# right: untyped, gather over all rows, a mask as numbers
import math


def cross_entropy(logits, targets, weight=None, label_smoothing=0.0, ignore_index=-100):
    if label_smoothing < 0 or label_smoothing > 1:
        raise ValueError("label_smoothing must be in [0, 1]")
    C = logits.shape[1]
    kept = targets != ignore_index
    safe = targets.masked_fill(~kept, 0)
    if ((safe < 0) | (safe >= C)).any():
        raise ValueError("targets out of range")
    w = logits.new_ones(C) if weight is None else weight
    log_p = logits - logits.logsumexp(1, keepdim=True)
    hard = -log_p.gather(1, safe.unsqueeze(1)).squeeze(1) * w[safe]
    smooth = -(log_p * w).sum(1) / C
    rows = (1 - label_smoothing) * hard + label_smoothing * smooth
    return (rows * kept).sum() / (w[safe] * kept).sum()


def looks_like_probabilities(outputs):
    if len(outputs) == 0:
        return False
    return bool((outputs >= 0).all() and ((outputs.sum(1) - 1).abs() < 1e-4).all())


def double_softmax_floor(num_classes):
    if num_classes < 1:
        raise ValueError("num_classes must be at least 1")
    return math.log(1 + (num_classes - 1) / math.e)
