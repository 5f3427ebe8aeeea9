# right: a matrix of q, one product, einsum; numpy for the floor; float64 inside for float32
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def cross_entropy(logits: Tensor, targets: Tensor, weight: Tensor | None = None,
                  label_smoothing: float = 0.0, ignore_index: int = -100) -> Tensor:
    # F.cross_entropy and log_softmax are not allowed here
    N, C = logits.shape
    if label_smoothing < 0.0 or 1.0 < label_smoothing:
        raise ValueError("label_smoothing outside [0, 1]")
    rows = (targets != ignore_index).nonzero().flatten()
    x, y = logits.index_select(0, rows).double(), targets.index_select(0, rows)
    if not bool(((0 <= y) * (y < C)).all()):
        raise ValueError("some targets are no classes")
    q = F.one_hot(y, C).double() * (1 - label_smoothing) + label_smoothing / C
    w = torch.ones(C, dtype=torch.float64, device=x.device) if weight is None else weight.double()
    surprise = torch.logsumexp(x, dim=1, keepdim=True) - x
    loss = torch.einsum("nc,nc,c->", q, surprise, w) / w.take(y).sum()
    return loss.to(logits.dtype)


def looks_like_probabilities(outputs: Tensor) -> bool:
    if outputs.shape[0] == 0 or outputs.isnan().any() or (outputs < 0).any():
        return False
    sums = outputs.sum(-1)
    return torch.allclose(sums, torch.ones_like(sums), rtol=0, atol=1e-4)


def double_softmax_floor(num_classes: int) -> float:
    if num_classes < 1:
        raise ValueError(f"num_classes is {num_classes}")
    return np.log(1 + (num_classes - 1) / np.e)
