"""Run gradient_error and check_gradients with another function in the place of gelu.

Its backward pass is right or wrong on purpose, so that the student's own does not matter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor


def error_of_line(module: Any, x: Tensor, slope: float) -> dict[str, Any]:
    """Return gradient_error for a line with this slope, and the dtypes in which its backward ran."""
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
    """Return the answer of check_gradients for each factor, as `verdict` does for one."""
    return [verdict(module, x, factor, limit) for factor in factors]


def verdict(module: Any, x: Tensor, factor: float, limit: float) -> Any:
    """Return check_gradients for x**3 / 3, with a gradient that is wrong by this factor above the limit."""

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
    """Put a function with this value and derivative in the place of GELUFunction and gelu.

    GELUFunction stays the same class, because an answer may hold its `apply`. The stand-in has a
    `setup_context`, which torch.func needs.
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
