# right: arithmetic on tensors of the sizes, one einsum, a module for the loss
import torch
from torch import nn


def broadcast_shape(shape, other):
    count = max(len(shape), len(other))
    a = torch.ones(count, dtype=torch.int64)
    b = a.clone()
    if len(shape):
        a[count - len(shape) :] = torch.tensor(list(shape))
    if len(other):
        b[count - len(other) :] = torch.tensor(list(other))
    if ((a != b) & (a != 1) & (b != 1)).any():
        raise ValueError("Other does not fit")
    return tuple(torch.where(a == 1, b, a).tolist())


def sum_to_shape(gradient, shape):
    shape = torch.Size(shape)
    try:
        result = broadcast_shape(gradient.shape, shape)
    except ValueError as error:
        raise ValueError(f"shape: {error}") from error
    if result != gradient.shape:
        raise ValueError("shape is larger than the gradient's")
    letters = "abcdefgh"[: gradient.dim()]
    own = letters[gradient.dim() - len(shape) :]
    kept = "".join(c for c, size in zip(own, shape, strict=True) if size != 1)
    return torch.einsum(f"{letters}->{kept}", gradient).reshape(shape)


def mse_loss(prediction, target, reduction="mean"):
    if not (prediction.dim() == target.dim() and prediction.shape == target.shape):
        raise ValueError("prediction.shape != target.shape")
    if reduction in ("mean", "sum", "none"):
        return nn.MSELoss(reduction=reduction)(prediction, target)
    raise ValueError("reduction has to be mean, sum or none")
