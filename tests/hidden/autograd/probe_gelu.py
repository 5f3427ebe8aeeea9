"""The two checks of gradients on other functions in the place of gelu.

So they are judged by what they say of right and wrong backward passes, whatever the student's own is like.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor


def error_of_line(module: Any, x: Tensor, slope: float) -> dict[str, Any]:
    """What gradient_error says of a line with this slope, and the dtypes in which its backward ran."""
    dtypes: set[str] = set()

    def line(x: Tensor) -> Tensor:
        return slope * x

    def backward(x: Tensor, grad_output: Tensor) -> Tensor:
        dtypes.add(str(grad_output.dtype))
        return slope * grad_output

    with stand_in(module, line, backward):
        error = module.gradient_error(x)
    return {"error": error, "dtypes": sorted(dtypes)}


def verdicts(module: Any, x: Tensor, factors: list[float], limit: float) -> list[Any]:
    """What check_gradients says of gradients that are wrong by each of these factors above the limit."""
    return [verdict(module, x, factor, limit) for factor in factors]


def verdict(module: Any, x: Tensor, factor: float, limit: float) -> Any:
    """The same for one factor; the function is a third of the cube."""

    def cube(x: Tensor) -> Tensor:
        return x**3 / 3

    def backward(x: Tensor, grad_output: Tensor) -> Tensor:
        return grad_output * x**2 * torch.where(x > limit, factor, 1.0)

    with stand_in(module, cube, backward):
        return module.check_gradients(x)


@contextlib.contextmanager
def stand_in(
    module: Any, value: Callable[[Tensor], Tensor], derivative: Callable[[Tensor, Tensor], Tensor]
) -> Iterator[None]:
    """Put another function, with this value and backward, in the place of GELUFunction and gelu.

    The class keeps its identity, for an answer that holds its `apply`. The stand-in is written in the style
    with setup_context, which torch.func needs.
    """

    class StandIn(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return value(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return derivative(x, grad_output)

    own, gelu = module.GELUFunction, module.gelu
    methods = ("forward", "setup_context", "backward")
    old = {name: vars(own).get(name) for name in methods}
    module.gelu = StandIn.apply
    for name in methods:
        setattr(own, name, vars(StandIn)[name])
    try:
        yield
    finally:
        module.gelu = gelu
        for name, method in old.items():
            if method is None:
                delattr(own, name)
            else:
                setattr(own, name, method)
