# right: a loop over rows, in Python and 0-d tensors
from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass
class Smoothing:
    amount: float
    classes: int

    def q(self, target: int) -> list[float]:
        q = [self.amount / self.classes] * self.classes
        q[target] += 1 - self.amount
        return q


def cross_entropy(logits, targets, weight=None, label_smoothing=0.0, ignore_index=-100):
    n, c = logits.size()
    if not (0.0 <= label_smoothing <= 1.0):
        raise ValueError(f"bad label_smoothing: {label_smoothing}")
    smoothing = Smoothing(float(label_smoothing), c)
    total, divisor = logits.new_zeros(()), logits.new_zeros(())
    for row, target in zip(logits, targets.tolist()):
        if target == ignore_index:
            continue
        if target not in range(c):
            raise ValueError(f"targets: {target} is no class")
        top = row.max().detach()
        log_z = top + torch.log(torch.exp(row - top).sum())
        for k, q in enumerate(smoothing.q(target)):
            w = 1.0 if weight is None else weight[k]
            total = total + w * q * (log_z - row[k])
        divisor += 1.0 if weight is None else weight[target]
    return total / divisor


def looks_like_probabilities(outputs):
    rows = outputs.tolist()
    return len(rows) > 0 and all(min(row) >= 0 and abs(math.fsum(row) - 1) <= 1e-4 for row in rows)


def double_softmax_floor(num_classes):
    if num_classes <= 0:
        raise ValueError("Num_classes: at least one")
    best = [1.0] + [0.0] * (num_classes - 1)
    return math.log(math.fsum(math.exp(p) for p in best)) - 1
