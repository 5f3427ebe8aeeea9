# right: a list as the shape, gradients summed as in micrograd and tinygrad, F.mse_loss, empty gradients early
import torch.nn.functional as F


def broadcast_shape(shape, other):
    ndim = max(len(shape), len(other))
    result = []
    for i in range(ndim):
        a = shape[i - ndim] if ndim - i <= len(shape) else 1
        b = other[i - ndim] if ndim - i <= len(other) else 1
        if a == b or b == 1:
            result.append(a)
        elif a == 1:
            result.append(b)
        else:
            raise ValueError(f"cannot broadcast shape {shape} with other {other}")
    return result


def sum_to_shape(gradient, shape):
    if list(broadcast_shape(shape, gradient.shape)) != list(gradient.shape):
        raise ValueError(f"shape {shape} was not broadcast to {gradient.shape}")
    if gradient.numel() == 0 and 0 not in shape:
        return gradient.new_zeros(shape)
    leading = gradient.dim() - len(shape)
    if leading > 0:
        gradient = gradient.sum(dim=tuple(range(leading)))
    for dim, size in enumerate(shape):
        if size == 1 and gradient.size(dim) != 1:
            gradient = gradient.sum(dim=dim, keepdim=True)
    return gradient


def mse_loss(prediction, target, reduction="mean"):
    if prediction.size() != target.size():
        raise ValueError(f"prediction {prediction.size()} vs. target {target.size()}")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return F.mse_loss(prediction, target, reduction=reduction)
