# right: a custom autograd Function with softmax minus q for a gradient, in-place on its own tensors
import math

import torch

TOLERANCE = 1e-4


class Surprise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, q):
        shifted = logits - logits.amax(1, keepdim=True)
        log_p = shifted.sub_(shifted.exp().sum(1, keepdim=True).log_())
        ctx.save_for_backward(log_p, q)
        return -(q * log_p).sum()

    @staticmethod
    def backward(ctx, grad):
        log_p, q = ctx.saved_tensors
        return grad * (log_p.exp() * q.sum(1, keepdim=True) - q), None


class Mean:
    def __init__(self, weight, smoothing, ignore):
        self.weight, self.smoothing, self.ignore = weight, smoothing, ignore

    def __call__(self, logits, targets):
        ignored = targets == self.ignore
        if ((targets < 0) | (targets >= logits.size(1))).logical_and_(~ignored).any():
            raise ValueError("Targets are outside of 0..C-1")
        targets = torch.where(ignored, torch.zeros_like(targets), targets)
        weight = torch.ones_like(logits[:1]).flatten() if self.weight is None else self.weight
        if not len(logits) or bool(ignored.all()):
            return logits.sum() * math.nan
        q = torch.full_like(logits, self.smoothing / logits.size(1), requires_grad=False)
        q.scatter_add_(1, targets[:, None], torch.full_like(q[:, :1], 1 - self.smoothing))
        q.mul_(weight)[ignored] = 0
        return Surprise.apply(logits, q) / weight[targets].masked_fill(ignored, 0).sum()


def cross_entropy(logits, targets, weight=None, label_smoothing=0.0, ignore_index=-100):
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"{label_smoothing=} is outside [0, 1]")
    return Mean(weight, label_smoothing, ignore_index)(logits, targets)


def looks_like_probabilities(outputs):
    if outputs.numel() == 0 or not outputs.isfinite().all():
        return False
    return bool(outputs.min() >= 0) and bool((outputs.sum(dim=-1) - 1).abs().max() <= TOLERANCE)


def double_softmax_floor(num_classes):
    if not num_classes >= 1:
        raise ValueError("num_classes has to be positive")
    return math.log(math.e + num_classes - 1) - 1.0
