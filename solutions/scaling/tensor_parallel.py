"""Write tensor parallelism: the weights of a layer lie on several ranks, and each computes a part of it.

A model that is too large for one device is cut inside of its layers. Two linear layers with an activation in
between, as in each block of a transformer, need only one sum over the ranks in each direction:

    ColumnParallel: x -> W1 x       each rank computes some of the outputs, from all of x
    activation                      each rank applies it to its own part
    RowParallel: h -> W2 h          each rank has the weights for its part of h; the products add up

- *Forward*, RowParallel sums over the ranks. Then every rank has the whole result, and computes the same loss
  from it.
- *Backward*, the gradient of that loss is the same on every rank, so that the sum passes it on as it is. But
  each rank knows only what its own outputs say about x: ColumnParallel sums the gradient of x over the ranks.

Linear layers compute `x @ weight.T + bias`, with `weight` (out, in). What the source calls columns are
therefore rows of `weight`. Parts are equal in size and in the order of the ranks.

Layers are made and called on every rank of a process group (`launch` in ranks.py starts some), in the same
order. `linear` is the same on all ranks. Two functions with a backward pass of their own help, one for each
layer: how you write them is up to you.

Source: Shoeybi et al. (2019), "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
Parallelism", section 3.

What holds for every exercise: docs/every-exercise.md.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

# begin solution: two autograd Functions


def summed(x: Tensor) -> Tensor:
    """Return the sum of `x` over the ranks."""
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


class Copy(torch.autograd.Function):
    """Return `x` itself in the forward pass, and the sum over the ranks in the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ARG004
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:  # noqa: ARG004
        return summed(grad_output)


class Sum(torch.autograd.Function):
    """Return the sum over the ranks in the forward pass, and the gradient itself in the backward pass.

    The gradient is the same on all ranks.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # noqa: ARG004
        return summed(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:  # noqa: ARG004
        return grad_output


# end solution


class ColumnParallel(nn.Module):
    """This rank's part of the outputs of a linear layer.

    Its parameters are `weight` (out / ranks, in) and `bias` (out / ranks,): this rank's part of those of
    `linear`. `bias` is None if `linear` has none.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        """Keep this rank's part of `linear`.

        Raises ValueError that names `out_features` if the ranks cannot divide them equally.
        """
        super().__init__()
        # begin solution: this rank's rows
        rank, ranks = dist.get_rank(), dist.get_world_size()
        if linear.out_features % ranks:
            raise ValueError(f"{ranks} ranks cannot divide out_features {linear.out_features}")
        self.weight = nn.Parameter(linear.weight.chunk(ranks)[rank])
        self.bias = None
        if linear.bias is not None:
            self.bias = nn.Parameter(linear.bias.chunk(ranks)[rank])
        # end solution

    def forward(self, x: Tensor) -> Tensor:
        """Return this rank's part of the outputs: (..., in), the same on all ranks, becomes (..., out / ranks).

        Backward, each parameter gets the gradient that its part has in the whole layer, and `x` the gradient of
        the whole layer, on every rank.
        """
        # begin solution: linear, and sum of gradients of x
        return nn.functional.linear(Copy.apply(x), self.weight, self.bias)  # type: ignore[no-untyped-call]
        # end solution


class RowParallel(nn.Module):
    """A linear layer whose input lies on several ranks, each with a part of the features.

    Its parameters are `weight` (out, in / ranks), this rank's columns of that of `linear`, and the whole `bias`
    (out,), on every rank. `bias` is None if `linear` has none.
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        """Keep this rank's part of `linear`.

        Raises ValueError that names `in_features` if the ranks cannot divide them equally.
        """
        super().__init__()
        # begin solution: this rank's columns, and bias
        rank, ranks = dist.get_rank(), dist.get_world_size()
        if linear.in_features % ranks:
            raise ValueError(f"{ranks} ranks cannot divide in_features {linear.in_features}")
        self.weight = nn.Parameter(linear.weight.chunk(ranks, dim=1)[rank])
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias)
        # end solution

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, the same on all ranks: this rank's (..., in / ranks) becomes (..., out).

        Backward, the incoming gradient is the same on all ranks. `weight` and `x` get the gradient that their
        part has in the whole layer, and `bias` gets its whole gradient on every rank.
        """
        # begin solution: product, sum over ranks, bias once
        total: Tensor = Sum.apply(x @ self.weight.T)  # type: ignore[no-untyped-call]
        return total if self.bias is None else total + self.bias
        # end solution
