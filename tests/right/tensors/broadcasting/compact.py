# right: plain and short; most of the wrong answers are changes of it
from itertools import zip_longest


def broadcast_shape(shape, other):
    result = []
    for a, b in zip_longest(shape[::-1], other[::-1], fillvalue=1):
        if a != b and a != 1 and b != 1:
            raise ValueError(f"shape {shape} and other {other} do not fit")
        result.append(b if a == 1 else a)
    return tuple(result[::-1])


def sum_to_shape(gradient, shape):
    if broadcast_shape(tuple(shape), tuple(gradient.shape)) != tuple(gradient.shape):
        raise ValueError("shape does not broadcast to that of gradient")
    while gradient.dim() > len(shape):
        gradient = gradient.sum(dim=0)
    for d, size in enumerate(shape):
        if size == 1:
            gradient = gradient.sum(dim=d, keepdim=True)
    return gradient


def mse_loss(prediction, target, reduction="mean"):
    if prediction.shape != target.shape:
        raise ValueError("prediction and target have different shapes")
    errors = (prediction - target) ** 2
    if reduction == "none":
        return errors
    if reduction == "sum":
        return errors.sum()
    if reduction == "mean":
        return errors.mean()
    raise ValueError("unknown reduction")
