"""The silent broadcasting trap: shapes that fit although nobody meant them to.

An operation of two tensors of different shapes stretches them to one shape: `(10,)` and `(10, 1)` make
`(10, 10)`, without a word. In a loss that is a bug that trains: predictions `(N, 1)` against targets
`(N,)` give N * N errors, every prediction against every target, and their mean is a number as good as any.
(`(10, 5)` and `(5, 10)`, the pair that is often shown for it, raise an error.)

Shapes are tuples, lists or `torch.Size` of sizes >= 0, `()` included.

Source: PyTorch documentation, "Broadcasting semantics"; NumPy user guide, "Broadcasting".
"""

from collections.abc import Sequence

from torch import Tensor


def broadcast_shape(shape: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that `a + b` has for tensors of these two shapes.

    The shapes are aligned at the last dimension; missing leading dimensions count as 1. Two sizes must
    be equal, or one of them is 1, in either argument, and the result has the other one. So a 1 against
    a size of 0 gives 0.

    Shapes may be too large for any tensor; sizes are below 2**63.

    Not allowed: `torch.broadcast_shapes`, `torch.broadcast_tensors`, NumPy's functions for it, or
    tensors of these shapes. Arithmetic on the sizes is free.

    Raises:
        ValueError: if two sizes do not fit, 0 against 2 too (the message names `shape` or `other`).
    """
    # begin solution: fill up with 1 in front, compare the pairs
    count = max(len(shape), len(other))
    left, right = ([1] * (count - len(sizes)) + list(sizes) for sizes in (shape, other))
    pairs = list(zip(left, right, strict=True))
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        raise ValueError(f"shape {tuple(shape)} and other {tuple(other)} do not broadcast")
    # Not the larger one: a 1 against a 0 gives 0.
    return tuple(b if a == 1 else a for a, b in pairs)
    # end solution


def sum_to_shape(gradient: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the gradient of an operand of shape `shape`, whose broadcast result has this gradient.

    An element that broadcasting used in several places gets the sum of the gradients of all of them. So
    the result is the sum of `gradient` over every dimension that broadcasting added or stretched, of
    exactly the shape `shape`. Where nothing was stretched it has the values of `gradient`: a copy or
    `gradient` itself. It is differentiable.

    `gradient` may have any strides, and dimensions of size 0. It is left as it is.

    Not allowed: `Tensor.sum_to_size`, however reached.

    Raises:
        ValueError: if `shape` does not broadcast to the shape of gradient (the message names `shape`).
    """
    # begin solution: sum over what was added or stretched
    if broadcast_shape(shape, gradient.shape) != tuple(gradient.shape):
        raise ValueError(f"shape {tuple(shape)} does not broadcast to {tuple(gradient.shape)}")
    added = gradient.dim() - len(shape)
    padded = (*[1] * added, *shape)
    stretched = [d for d, size in enumerate(padded) if size != gradient.shape[d]]
    # The sum over no dimensions at all, dim=[], would be that over all of them.
    total = gradient.sum(dim=stretched) if stretched else gradient
    # The sum has lost the dimensions of size 1: reshape puts them back.
    return total.reshape(tuple(shape))
    # end solution


def mse_loss(prediction: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Return the squared error of `prediction` and `target`, two tensors of one shape and one dtype.

    `reduction` is "mean", over all elements, "sum", or "none": the elementwise errors, of the shape of
    prediction. The others are 0-d. Gradients reach both tensors. `torch.nn.functional.mse_loss` is
    allowed. The mean of no elements is not judged.

    Raises:
        ValueError: if the shapes differ in any way, also where they would broadcast, as `(N, 1)` and
            `(N,)`, or a 0-d tensor and `(N,)`, with any reduction (the message names `prediction` or
            `target`); or if `reduction` is another one (it names `reduction`).
    """
    # begin solution: compare the shapes before you compute
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
