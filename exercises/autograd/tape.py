"""Write reverse-mode automatic differentiation, as PyTorch's autograd does it, for a few operations.

A `Value` holds a tensor. Each operation makes a new Value, which remembers the Values that it came from and how
a gradient passes back to them. So the Values are a graph, and `backward` goes through it from the result to the
leaves, by the chain rule:

    gradient of a Value = sum over all of its uses: what each use passes back

Three things go wrong easily:

- A Value that is used several times gets a gradient from each use. They add up.
- A Value can pass its gradient back only after all of its uses have passed theirs: the order is *topological*.
- Adding a (3,) to a (4, 3) uses each number four times. Its gradient is (3,) again, the sum of four.

Not allowed: PyTorch's own autograd (`torch.autograd.grad`, `Tensor.backward`, `torch.func.grad` and the like).

Source: Baydin et al. (2018), "Automatic Differentiation in Machine Learning: a Survey", section 3.2.

What holds for every exercise: docs/every-exercise.md.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def unbroadcast(gradient: Tensor, shape: torch.Size | tuple[int, ...]) -> Tensor:
    """Return the gradient of a tensor of this shape that was broadcast to the shape of `gradient`.

    Broadcasting adds dimensions in front, and stretches those of size 1. Sum over both: the result has `shape`.
    """
    # TODO: sum over added and stretched dimensions.
    raise NotImplementedError("unbroadcast: sum over added and stretched dimensions")


class Value:
    """A tensor in a graph.

    `data` is a float64 tensor, 0-d for a number. `grad` is a tensor of the shape of `data` once `backward` came
    by; before that it is zeros or None, as you like. More attributes, methods and parameters are up to you.

    Where an operation takes `other`, it may be a Value or a number. Nothing changes the `data` of a Value.
    """

    def __init__(self, data: float | Tensor) -> None:
        """Make a leaf, a Value that comes from no other, of a number or a float64 tensor."""
        # TODO: data, grad, and what the graph needs.
        raise NotImplementedError("Value.__init__: data, grad, and what the graph needs")

    def __add__(self, other: Value | float) -> Value:
        """Return `self + other`, which may have different shapes that broadcast."""
        # TODO: add, and pass the gradient back to both.
        raise NotImplementedError("Value.__add__: add, and pass the gradient back to both")

    def __mul__(self, other: Value | float) -> Value:
        """Return `self * other`, which may have different shapes that broadcast."""
        # TODO: multiply, pass back what the other factor says.
        raise NotImplementedError("Value.__mul__: multiply, pass back what the other factor says")

    def __matmul__(self, other: Value) -> Value:
        """Return the matrix product of two Values, (n, k) and (k, m)."""
        # TODO: multiply, pass back two matrix products.
        raise NotImplementedError("Value.__matmul__: multiply, pass back two matrix products")

    def relu(self) -> Value:
        """Return the positive part. The gradient at 0 is 0."""
        # TODO: cut off what is negative, and its gradient.
        raise NotImplementedError("Value.relu: cut off what is negative, and its gradient")

    def sum(self, dim: int | None = None) -> Value:
        """Return the sum of all elements, 0-d, or along `dim`, which is gone then, and may be negative."""
        # TODO: sum, and pass the gradient back to every element.
        raise NotImplementedError("Value.sum: sum, and pass the gradient back to every element")

    def backward(self, gradient: Tensor | None = None) -> None:
        """Add to `grad` of each leaf the gradient of this Value with respect to it.

        `gradient` is that of this Value, of its shape. If it is None, this Value has one element, and it is 1.

        - However many paths there are, each Value passes its gradient back once. A path has at most 200 Values.
        - `grad` adds up: after backward of another result it is the sum of both gradients, as in PyTorch.
          Results share nothing but leaves, and backward is called once for each result.
        - What `grad` of Values other than leaves holds is up to you.
        """
        # TODO: sort, then go from the result to the leaves.
        raise NotImplementedError("Value.backward: sort, then go from the result to the leaves")

    def __radd__(self, other: float) -> Value:
        """Given: number + Value."""
        return self + other

    def __rmul__(self, other: float) -> Value:
        """Given: number * Value."""
        return self * other

    def __sub__(self, other: Value | float) -> Value:
        """Given: self - other."""
        return self + -1.0 * other
