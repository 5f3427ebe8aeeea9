"""The silent broadcasting trap: shapes that fit by accident.

Tensors of the shapes `(10,)` and `(10, 1)` are stretched to `(10, 10)`, without a warning. In a loss this is a
bug with which training still runs: predictions `(N, 1)` and targets `(N,)` give N * N errors, every prediction
against every target.

Shapes are tuples, lists or `torch.Size` of sizes >= 0, `()` included.

Source: PyTorch documentation, "Broadcasting semantics".

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Sequence

from torch import Tensor


def broadcast_shape(shape: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that `a + b` has for tensors of these two shapes.

    The shapes are aligned at the last dimension; missing leading dimensions count as 1. Two sizes must be
    equal, or one of them must be 1; then the result has the other one, which may be 0.

    The shapes may be too large for any tensor (sizes are below 2**63). Not allowed: `torch.broadcast_shapes`,
    `torch.broadcast_tensors`, NumPy's functions for it, and tensors of these shapes.

    Raises ValueError that names `shape` or `other` if two sizes do not fit, such as 0 and 2.
    """
    # begin solution: fill up with 1 in front, compare the pairs
    count = max(len(shape), len(other))
    left, right = ([1] * (count - len(sizes)) + list(sizes) for sizes in (shape, other))
    pairs = list(zip(left, right, strict=True))
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        raise ValueError(f"shape {tuple(shape)} and other {tuple(other)} do not broadcast")
    # Not the larger size: a 1 against a 0 gives 0.
    return tuple(b if a == 1 else a for a, b in pairs)
    # end solution


def sum_to_shape(gradient: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the gradient of an operand of shape `shape` that was broadcast to the shape of `gradient`.

    An element that broadcasting used in several places gets the sum of their gradients: sum `gradient` over
    every dimension that broadcasting added or stretched. The result has exactly the shape `shape`, and is
    differentiable. Where nothing was stretched, return `gradient` itself or a copy. Dimensions may have size 0.

    Not allowed: `Tensor.sum_to_size`.

    Raises ValueError that names `shape` if it does not broadcast to the shape of `gradient`.
    """
    # begin solution: sum over what was added or stretched
    if broadcast_shape(shape, gradient.shape) != tuple(gradient.shape):
        raise ValueError(f"shape {tuple(shape)} does not broadcast to {tuple(gradient.shape)}")
    added = gradient.dim() - len(shape)
    padded = (*[1] * added, *shape)
    stretched = [d for d, size in enumerate(padded) if size != gradient.shape[d]]
    # With dim=[], the sum would be taken over all dimensions.
    total = gradient.sum(dim=stretched) if stretched else gradient
    # The sum has lost the dimensions of size 1, and reshape puts them back.
    return total.reshape(tuple(shape))
    # end solution


def mse_loss(prediction: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Return the squared error of `prediction` and `target`, two tensors of the same shape.

    `reduction` is "mean" (over all elements) or "sum", which give a 0-d tensor, or "none", which gives all
    errors. Gradients reach both tensors. `torch.nn.functional.mse_loss` is allowed.

    Raises ValueError that names `prediction` or `target` if the shapes differ in any way, also where they would
    broadcast; or `reduction` if it is something else.
    """
    # begin solution: compare the shapes, then compute the errors
    if prediction.shape != target.shape:
        raise ValueError(
            f"prediction has shape {tuple(prediction.shape)}, target has {tuple(target.shape)}"
        )
    errors = (prediction - target) ** 2
    if reduction == "mean":
        return errors.mean()
    if reduction == "sum":
        return errors.sum()
    if reduction == "none":
        return errors
    raise ValueError(f'reduction must be "mean", "sum" or "none", got {reduction!r}')
    # end solution
