# right: autograd is asked for the gradient of expand, and PyTorch for the loss
import torch
import torch.nn.functional as F


def broadcast_shape(shape, other):
    longer, shorter = sorted([list(shape), list(other)], key=len, reverse=True)
    shorter = [1] * (len(longer) - len(shorter)) + shorter
    if any(len({a, b} - {1}) > 1 for a, b in zip(longer, shorter, strict=True)):
        raise ValueError(f"no way to broadcast shape={shape} with {other}")
    # Of {a, b} without 1 there is one size left, or none.
    return tuple(({a, b} - {1} or {1}).pop() for a, b in zip(longer, shorter, strict=True))


def sum_to_shape(gradient, shape):
    operand = torch.zeros(tuple(shape), dtype=gradient.dtype, requires_grad=True)
    try:
        fits = broadcast_shape(shape, gradient.shape) == tuple(gradient.shape)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"shape {shape} is no operand of a result of shape {gradient.shape}")
    with torch.enable_grad():
        result = operand.expand(gradient.shape)
        wanted = gradient.requires_grad
        return torch.autograd.grad(result, operand, gradient, create_graph=wanted)[0]


def mse_loss(prediction, target, reduction="mean"):
    if tuple(prediction.size()) != tuple(target.size()):
        raise ValueError(f"target is {list(target.size())}, not {list(prediction.size())}")
    if reduction not in {"mean", "sum", "none"}:
        raise ValueError(f"reduction={reduction}")
    return F.mse_loss(prediction, target, reduction=reduction)
