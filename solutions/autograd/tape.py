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
    # begin solution: sum over added and stretched dimensions
    added = gradient.dim() - len(shape)
    gradient = gradient.sum(dim=tuple(range(added))) if added else gradient
    stretched = [dim for dim, size in enumerate(shape) if size == 1]
    return gradient.sum(dim=stretched, keepdim=True) if stretched else gradient
    # end solution


class Value:
    """A tensor in a graph.

    `data` is a float64 tensor, 0-d for a number. `grad` is a tensor of the shape of `data` once `backward` came
    by; before that it is zeros or None, as you like. More attributes, methods and parameters are up to you.

    Where an operation takes `other`, it may be a Value or a number. Nothing changes the `data` of a Value.
    """

    def __init__(self, data: float | Tensor) -> None:
        """Make a leaf, a Value that comes from no other, of a number or a float64 tensor."""
        # begin solution: data, grad, and what the graph needs
        self.data = torch.as_tensor(data, dtype=torch.float64)
        self.grad: Tensor | None = None
        self.parents: tuple[Value, ...] = ()
        # A function from the gradient of this Value to the gradients of its parents.
        self.pull: Callable[[Tensor], tuple[Tensor, ...]] = lambda gradient: ()
        # end solution

    # begin solution: helpers
    @classmethod
    def made(
        cls, data: Tensor, parents: tuple[Value, ...], pull: Callable[[Tensor], tuple[Tensor, ...]]
    ) -> Value:
        value = cls(data)
        value.parents, value.pull = parents, pull
        return value

    # end solution

    def __add__(self, other: Value | float) -> Value:
        """Return `self + other`, which may have different shapes that broadcast."""
        # begin solution: add, and pass the gradient back to both
        other = other if isinstance(other, Value) else Value(other)
        shapes = self.data.shape, other.data.shape
        return Value.made(
            self.data + other.data,
            (self, other),
            lambda gradient: (unbroadcast(gradient, shapes[0]), unbroadcast(gradient, shapes[1])),
        )
        # end solution

    def __mul__(self, other: Value | float) -> Value:
        """Return `self * other`, which may have different shapes that broadcast."""
        # begin solution: multiply, pass back what the other factor says
        factor = other if isinstance(other, Value) else Value(other)

        def pull(gradient: Tensor) -> tuple[Tensor, ...]:
            left = unbroadcast(gradient * factor.data, self.data.shape)
            right = unbroadcast(gradient * self.data, factor.data.shape)
            return left, right

        return Value.made(self.data * factor.data, (self, factor), pull)
        # end solution

    def __matmul__(self, other: Value) -> Value:
        """Return the matrix product of two Values, (n, k) and (k, m)."""
        # begin solution: multiply, pass back two matrix products

        def pull(gradient: Tensor) -> tuple[Tensor, ...]:
            left = gradient @ other.data.T
            right = self.data.T @ gradient
            return left, right

        return Value.made(self.data @ other.data, (self, other), pull)
        # end solution

    def relu(self) -> Value:
        """Return the positive part. The gradient at 0 is 0."""
        # begin solution: cut off what is negative, and its gradient
        return Value.made(self.data.relu(), (self,), lambda gradient: (gradient * (self.data > 0),))
        # end solution

    def sum(self, dim: int | None = None) -> Value:
        """Return the sum of all elements, 0-d, or along `dim`, which is gone then, and may be negative."""
        # begin solution: sum, and pass the gradient back to every element

        def pull(gradient: Tensor) -> tuple[Tensor, ...]:
            gradient = gradient if dim is None else gradient.unsqueeze(dim)
            return (gradient.expand(self.data.shape),)

        return Value.made(self.data.sum() if dim is None else self.data.sum(dim), (self,), pull)
        # end solution

    def backward(self, gradient: Tensor | None = None) -> None:
        """Add to `grad` of each leaf the gradient of this Value with respect to it.

        `gradient` is that of this Value, of its shape. If it is None, this Value has one element, and it is 1.

        - However many paths there are, each Value passes its gradient back once. A path has at most 200 Values.
        - `grad` adds up: after backward of another result it is the sum of both gradients, as in PyTorch.
          Results share nothing but leaves, and backward is called once for each result.
        - What `grad` of Values other than leaves holds is up to you.
        """
        # begin solution: sort, then go from the result to the leaves
        order: list[Value] = []
        seen: set[Value] = set()

        def visit(value: Value) -> None:
            if value in seen:
                return
            seen.add(value)
            for parent in value.parents:
                visit(parent)
            order.append(value)

        visit(self)
        gradients = {self: torch.ones_like(self.data) if gradient is None else gradient}
        for value in reversed(order):
            passed = gradients[value]
            value.grad = passed if value.grad is None else value.grad + passed
            for parent, part in zip(value.parents, value.pull(passed), strict=True):
                gradients[parent] = gradients[parent] + part if parent in gradients else part
        # end solution

    def __radd__(self, other: float) -> Value:
        """Given: number + Value."""
        return self + other

    def __rmul__(self, other: float) -> Value:
        """Given: number * Value."""
        return self * other

    def __sub__(self, other: Value | float) -> Value:
        """Given: self - other."""
        return self + -1.0 * other
