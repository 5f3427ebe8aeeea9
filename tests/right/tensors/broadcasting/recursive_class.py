# right: recursion, errors of its own, a class for the reductions
from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from torch import Tensor


class ShapeError(ValueError):
    """Raised with the names of both arguments."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"`{first}` does not go with `{second}`")


class Reduction(str, Enum):
    MEAN = "mean"
    SUM = "sum"
    NONE = "none"

    def apply(self, errors: Tensor) -> Tensor:
        actions: dict[Reduction, Callable[[], Tensor]] = {
            Reduction.MEAN: lambda: errors.sum() / errors.numel(),
            Reduction.SUM: errors.sum,
            Reduction.NONE: lambda: errors,
        }
        return actions[self]()


def broadcast_shape(shape: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    if len(shape) == 0:
        return tuple(other)
    if len(other) == 0:
        return tuple(shape)
    *front, a = shape
    *front_other, b = other
    if a == 1 or a == b:
        last = b
    elif b == 1:
        last = a
    else:
        raise ShapeError("shape", "other")
    return (*broadcast_shape(front, front_other), last)


def sum_to_shape(gradient: Tensor, shape: Sequence[int]) -> Tensor:
    sizes = list(gradient.shape)
    added = len(sizes) - len(shape)
    stretches = [size in (1, n) for size, n in zip(shape, sizes[max(added, 0) :], strict=False)]
    if added < 0 or not all(stretches):
        raise ShapeError("shape", "gradient")
    result = gradient.clone()
    for d in reversed(range(gradient.dim())):
        if d < added:
            result = result.sum(d)
        elif shape[d - added] != sizes[d]:
            result = result.sum(d, keepdim=True)
    return result


def mse_loss(prediction: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    try:
        kind = Reduction(reduction)
    except ValueError:
        raise ValueError(f"{reduction!r} is no reduction") from None
    if list(prediction.shape) != list(target.shape):
        raise ShapeError("prediction", "target")
    return kind.apply((target - prediction).square())
