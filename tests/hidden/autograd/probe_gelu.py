"""GELUFunction with live objects, and the two checks on stand-ins for gelu."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor


def gradient(y: Any, x: Tensor) -> Tensor | None:
    """The gradient of the sum at x; None if there is none."""
    if not isinstance(y, Tensor) or not y.requires_grad:
        return None
    return torch.autograd.grad(y.sum(), x, allow_unused=True)[0]


def nodes(module: Any, xs: list[Tensor], marks: list[Tensor]) -> list[dict[str, Any]]:
    """For each x: the nodes before the result, and the gradient where backward gives its mark.

    The nodes are the name of the first one, and the ids of the classes of all; `own` is that of
    GELUFunction's.
    """
    own = getattr(module, "GELUFunction", None)
    reports = []
    for x, mark in zip(xs, marks, strict=True):
        out = module.gelu(x.requires_grad_())
        try_gradient(out, x)  # an unwritten backward is not worth a node
        kinds, ahead = [], [getattr(out, "grad_fn", None)]
        while ahead and len(kinds) < 1000:
            node = ahead.pop()
            if node is not None:
                kinds.append(type(node))
                ahead.extend(before for before, _ in node.next_functions)

        def backward(ctx: Any, *grad_outputs: Tensor, mark: Tensor = mark) -> Any:
            return tuple(mark.clone() if needed else None for needed in ctx.needs_input_grad)

        with replaced(own, backward=staticmethod(backward)):
            marked = gradient(module.gelu(x), x)
        reports.append(
            {
                "node": kinds[0].__name__ if kinds else None,
                "nodes": [id(kind) for kind in kinds],
                "own": id(getattr(own, "_backward_cls", None)),
                "marked": marked,
            }
        )
    return reports


def try_gradient(y: Any, x: Tensor) -> None:
    """Run backward; it has to be written, that it fails is for other tests to tell."""
    try:
        gradient(y, x)
    except NotImplementedError:
        raise
    except Exception:  # noqa: BLE001 - see above
        pass


def declaration(module: Any) -> dict[str, Any]:
    """How GELUFunction and its methods are declared."""
    x = torch.ones(2, requires_grad=True)
    try_gradient(module.gelu(x), x)
    own = getattr(module, "GELUFunction", None)
    is_function = isinstance(own, type) and issubclass(own, torch.autograd.Function)
    report: dict[str, Any] = {"function": is_function}
    for name in ("forward", "backward"):
        declared = inspect.getattr_static(own, name, None)
        inherited = declared is inspect.getattr_static(torch.autograd.Function, name)
        report[name] = "missing" if inherited else type(declared).__name__
    return report


def change_between(module: Any, x: Tensor, changed: Tensor) -> Tensor | None:
    """The gradient of a backward pass after x was given other values in place."""
    untouched = x.clone().requires_grad_()
    gradient(module.gelu(untouched), untouched)
    y = module.gelu(x.requires_grad_())
    with torch.no_grad():
        x.copy_(changed)
    return gradient(y, x)


# --- the checks, on a stand-in for gelu ----------------------------------------------------------


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
