"""The two checks of gradients on stand-ins for gelu."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor


def standing(
    module: Any, function: str, x: Tensor, kind: str, factor: float = 1.0, limit: float = -1e9
) -> dict[str, Any]:
    """What one of the checks says of another function in the place of GELUFunction and gelu.

    So it is judged by what it says of a right and of a wrong backward pass, whatever the student's own
    is like. A `line` has the slope `factor` everywhere; of a `cube` the derivative is `factor` times the
    right one where x is above `limit`. With the answer come the dtypes in which backward ran.
    """
    seen: list[str] = []

    def value(x: Tensor) -> Tensor:
        return x * factor if kind == "line" else x**3 / 3

    def backward(x: Tensor, g: Tensor) -> Tensor:
        seen.append(str(g.dtype).removeprefix("torch."))
        return g * factor if kind == "line" else g * x**2 * torch.where(x > limit, factor, 1.0)

    with stand_in(module, value, backward):
        return {"answer": getattr(module, function)(x), "dtypes": sorted(set(seen))}


@contextlib.contextmanager
def stand_in(
    module: Any, value: Callable[..., Tensor], right: Callable[..., Any]
) -> Iterator[None]:
    """Put another function, with this value and backward, in the place of GELUFunction and gelu.

    The class keeps its identity, for what holds its apply; in the style with setup_context, which
    torch.func needs.
    """

    class StandIn(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return value(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Any:
            return right(ctx.saved_tensors[0], grad_output)

    own, gelu = (getattr(module, name, None) for name in ("GELUFunction", "gelu"))
    methods = ("forward", "setup_context", "backward") if isinstance(own, type) else ()
    old = {name: vars(own).get(name) for name in methods}
    module.gelu = lambda x: StandIn.apply(x)  # type: ignore[no-untyped-call]
    for name in methods:
        setattr(own, name, vars(StandIn)[name])
    try:
        yield
    finally:
        module.gelu = gelu
        for name, method in old.items():
            delattr(own, name) if method is None else setattr(own, name, method)
