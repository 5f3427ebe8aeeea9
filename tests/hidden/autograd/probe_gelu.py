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
    right one where x is above `limit`; `unwritten` is a cube without a backward pass. With the answer
    come the dtypes in which backward ran.
    """
    seen: list[str] = []

    def value(x: Tensor) -> Tensor:
        return x * factor if kind == "line" else x**3 / 3

    def backward(x: Tensor, g: Tensor) -> Tensor:
        seen.append(str(g.dtype).removeprefix("torch."))
        if kind == "unwritten":
            raise NotImplementedError("backward is not written yet")
        return g * factor if kind == "line" else g * x**2 * torch.where(x > limit, factor, 1.0)

    with stand_in(module, value, backward):
        return {"answer": getattr(module, function)(x), "dtypes": sorted(set(seen))}


@contextlib.contextmanager
def stand_in(
    module: Any, value: Callable[[Tensor], Tensor], backward: Callable[[Tensor, Tensor], Tensor]
) -> Iterator[None]:
    """Put another function in the place of GELUFunction and gelu.

    The class keeps its identity, for what holds its apply; in the style with setup_context, which
    torch.func needs.
    """
    right = backward

    class StandIn(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return value(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Tensor:
            return right(ctx.saved_tensors[0], grad_output)

    methods = {name: StandIn.__dict__[name] for name in ("forward", "setup_context", "backward")}
    gelu, apply = getattr(module, "gelu", None), StandIn.apply
    module.gelu = lambda x: apply(x)  # type: ignore[no-untyped-call]
    try:
        with replaced(getattr(module, "GELUFunction", None), **methods):
            yield
    finally:
        module.gelu = gelu


@contextlib.contextmanager
def replaced(own: Any, **methods: Any) -> Iterator[None]:
    """Give the class other methods for a while, if it is one."""
    old = {name: own.__dict__.get(name) for name in methods} if isinstance(own, type) else {}
    for name in old:
        setattr(own, name, methods[name])
    try:
        yield
    finally:
        for name, method in old.items():
            if method is None:
                delattr(own, name)
            else:
                setattr(own, name, method)
