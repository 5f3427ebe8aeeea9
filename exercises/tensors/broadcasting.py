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
    # TODO: fill up with 1 in front, compare the pairs.
    raise NotImplementedError("broadcast_shape: fill up with 1 in front, compare the pairs")


def sum_to_shape(gradient: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the gradient of an operand of shape `shape` that was broadcast to the shape of `gradient`.

    An element that broadcasting used in several places gets the sum of their gradients: sum `gradient` over
    every dimension that broadcasting added or stretched. The result has exactly the shape `shape`, and is
    differentiable. Where nothing was stretched, return `gradient` itself or a copy. Dimensions may have size 0.

    Not allowed: `Tensor.sum_to_size`.

    Raises ValueError that names `shape` if it does not broadcast to the shape of `gradient`.
    """
    # TODO: sum over what was added or stretched.
    raise NotImplementedError("sum_to_shape: sum over what was added or stretched")


def mse_loss(prediction: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Return the squared error of `prediction` and `target`, two tensors of the same shape.

    `reduction` is "mean" (over all elements) or "sum", which give a 0-d tensor, or "none", which gives all
    errors. Gradients reach both tensors. `torch.nn.functional.mse_loss` is allowed.

    Raises ValueError that names `prediction` or `target` if the shapes differ in any way, also where they would
    broadcast; or `reduction` if it is something else.
    """
    # TODO: compare the shapes, then compute the errors.
    raise NotImplementedError("mse_loss: compare the shapes, then compute the errors")
