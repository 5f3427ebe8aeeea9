# right: NumPy arithmetic on the sizes, a sum in two steps, a norm for the loss
import numpy as np
import torch


def _padded(shape, count):
    return np.concatenate(
        [np.ones(count - len(shape), dtype=object), np.array(shape, dtype=object)]
    )


def broadcast_shape(shape, other):
    count = max(len(shape), len(other))
    a, b = _padded(shape, count), _padded(other, count)
    bad = (a != b) & (a != 1) & (b != 1)
    if bad.any():
        raise ValueError(f"dimension {np.flatnonzero(bad)[0]} of shape and other differ")
    return tuple(int(n) for n in np.where(a == 1, b, a))


def sum_to_shape(gradient, shape):
    shape = tuple(shape)
    missing = gradient.ndim - len(shape)
    if missing < 0:
        raise ValueError(f"shape {shape} has more dimensions than the gradient")
    full = (1,) * missing + shape
    for size, n in zip(full, gradient.shape, strict=True):
        if size not in (1, n):
            raise ValueError(f"shape {shape} cannot be broadcast to {gradient.shape}")
    axes = tuple(range(missing)) + tuple(i for i in range(missing, gradient.ndim) if full[i] == 1)
    return torch.sum(gradient, axes, keepdim=True).view(shape) if axes else gradient * 1


def mse_loss(prediction, target, reduction="mean"):
    match reduction:
        case "mean" | "sum" | "none":
            pass
        case _:
            raise ValueError(f"Reduction {reduction}")
    if prediction.shape == target.shape:
        difference = prediction - target
        if reduction == "none":
            return difference * difference
        total = torch.dot(difference.reshape(-1), difference.reshape(-1))
        return total if reduction == "sum" else total / difference.numel()
    raise ValueError("Target has another shape")
