"""Exercise GELUFunction and its two checks with live objects, and report what happened."""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

Backward = Callable[[Tensor, Tensor], Tensor]


# --- GELUFunction --------------------------------------------------------------------------------


class Feed(torch.autograd.Function):
    """The end of a graph that hands this very grad_output to what comes before it."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, grad_output: Tensor) -> Tensor:
        # In a list, so that autograd neither copies it nor watches over it.
        ctx.given = [grad_output]
        return y.sum()

    @staticmethod
    def backward(ctx: Any, one: Tensor) -> tuple[Tensor, None]:
        return ctx.given[0], None


def gradient(y: Any, x: Tensor, grad_output: Tensor | None = None) -> Tensor | None:
    """The gradient at x for this grad_output, as it is stored in memory; None if there is none."""
    if not isinstance(y, Tensor) or not y.requires_grad:
        return None
    feed: Any = Feed.apply
    total = y.sum() if grad_output is None else feed(y, grad_output)
    return torch.autograd.grad(total, x, allow_unused=True)[0]


def try_gradient(y: Any, x: Tensor) -> None:
    """Run backward; it has to be written, that it fails is for other tests to tell."""
    try:
        gradient(y, x)
    except NotImplementedError:
        raise
    except Exception:  # noqa: BLE001 - see above
        pass


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
        kinds = [type(node) for node in before(getattr(out, "grad_fn", None))]
        with replaced(own, backward=staticmethod(giving(mark))):
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


def giving(mark: Tensor) -> Callable[..., tuple[Tensor | None, ...]]:
    """A backward that returns this, whatever comes in; forward may take more arguments than x."""

    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        return tuple(mark.clone() if needed else None for needed in ctx.needs_input_grad)

    return backward


def before(node: Any) -> list[Any]:
    """This node of a graph, and those before it."""
    found: list[Any] = []
    ahead = [node] if node is not None else []
    while ahead and len(found) < 1000:
        found.append(ahead.pop())
        ahead.extend(each for each, _ in found[-1].next_functions if each is not None)
    return found


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


def passes(module: Any, x: Tensor, grad_output: Tensor) -> dict[str, Tensor | None]:
    """The gradient, and what `x` and `grad_output` hold after a forward and a backward pass."""
    x, grad_output = x.clone(), grad_output.clone()
    out = module.gelu(x.requires_grad_())
    after_forward = x.detach().clone()
    result = gradient(out, x, grad_output)
    return {
        "gradient": result,
        "x after the forward pass": after_forward,
        "x after the backward pass": x.detach().clone(),
        "grad_output after the backward pass": grad_output,
    }


def layouts(module: Any, x: Tensor, grad_output: Tensor) -> dict[str, Tensor | None]:
    """The gradient at `x` (a, b) for the same grad_output, stored in memory in different ways."""
    stored = {
        "contiguous": grad_output.contiguous(),
        "transposed": grad_output.t().contiguous().t(),
        "sliced": torch.stack([grad_output, grad_output], dim=-1)[..., 0],
    }
    x = x.requires_grad_()
    return {name: gradient(module.gelu(x), x, each) for name, each in stored.items()}


def change_between(
    module: Any, x: Tensor, changed: Tensor, transposed: bool = False
) -> dict[str, Any]:
    """Go backward after x was given other values in place: the gradient, or what was raised.

    `x` of two dimensions may lie transposed in memory, so that it is not contiguous.
    """
    untouched = x.clone().requires_grad_()
    gradient(module.gelu(untouched), untouched)
    x = (x.t().contiguous().t() if transposed else x.clone()).requires_grad_()
    y = module.gelu(x)
    with torch.no_grad():
        x.copy_(changed)
    try:
        return {"gradient": gradient(y, x), "raised": None, "message": ""}
    except Exception as error:  # noqa: BLE001 - the judge decides what it means
        return {"gradient": None, "raised": type(error).__name__, "message": str(error)}


# --- the checks, on a stand-in for gelu ----------------------------------------------------------


@contextlib.contextmanager
def stand_in(module: Any, value: Callable[[Tensor], Tensor], backward: Backward) -> Iterator[None]:
    """Put another function in the place of GELUFunction and gelu: the checks are judged on it.

    So they are judged by what they say of a right and of a wrong backward pass, whatever the
    student's own is like. The class keeps its identity, for whoever holds its apply; in the style
    with setup_context, which torch.func needs.
    """

    class StandIn(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return value(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Tensor:
            return backward(ctx.saved_tensors[0], grad_output)

    # Asked for at every call; found here, it need not be worked out each time.
    signed: Any = StandIn.forward
    signed.__signature__ = inspect.signature(StandIn.forward)
    methods = {name: StandIn.__dict__[name] for name in ("forward", "setup_context", "backward")}
    gelu = getattr(module, "gelu", None)
    apply: Any = StandIn.apply
    module.gelu = lambda x: apply(x)
    try:
        with replaced(getattr(module, "GELUFunction", None), **methods):
            yield
    finally:
        module.gelu = gelu


@contextlib.contextmanager
def replaced(own: Any, **methods: Any) -> Iterator[None]:
    """Give the class other methods for a while, if it is one."""
    kept = {}
    if isinstance(own, type):
        for name, method in methods.items():
            kept[name] = own.__dict__.get(name)
            setattr(own, name, method)
    try:
        yield
    finally:
        for name, method in kept.items():
            if method is None:
                delattr(own, name)
            else:
                setattr(own, name, method)


def cube(x: Tensor) -> Tensor:
    return x**3 / 3


def scaled(factor: float, limit: float = -1e9) -> Backward:
    """The derivative of the cube, times `factor` where x is above `limit`."""
    return lambda x, g: g * x**2 * torch.where(x > limit, factor, 1.0)


def errors(module: Any, xs: list[Tensor], slopes: list[float]) -> list[Any]:
    """What gradient_error says at each x where the gradient is `slope` everywhere, slope by slope."""
    now = [0.0]
    with stand_in(module, lambda x: x * now[0], lambda x, g: g * now[0]):
        answers: list[Any] = []
        for now[0] in slopes:
            answers.extend(module.gradient_error(x) for x in xs)
    return answers


def error_dtypes(module: Any, xs: list[Tensor]) -> list[list[str]]:
    """The dtypes in which gradient_error ran the backward pass, for each x."""
    seen: list[list[str]] = []

    def backward(x: Tensor, g: Tensor) -> Tensor:
        seen[-1].append(str(g.dtype).removeprefix("torch."))
        return g * 0.5

    with stand_in(module, lambda x: x * 0.5, backward):
        for x in xs:
            seen.append([])
            module.gradient_error(x)
    return [sorted(set(each)) for each in seen]


def verdicts(
    module: Any, x: Tensor, factors: list[float], limit: float = -1e9
) -> list[dict[str, Any]]:
    """What check_gradients says of a derivative that is `factor` times the right one above `limit`.

    The first answer has to be one: what is raised there comes through.
    """
    answers: list[dict[str, Any]] = []
    now = [1.0]
    with stand_in(module, cube, lambda x, g: scaled(now[0], limit)(x, g)):
        for now[0] in factors:
            try:
                answers.append({"answer": module.check_gradients(x), "raised": None})
            except Exception as error:
                if not answers:
                    raise
                answers.append({"answer": None, "raised": type(error).__name__})
    return answers


def unwritten(module: Any, x: Tensor) -> dict[str, Any]:
    """What check_gradients does where backward raises NotImplementedError."""

    def backward(x: Tensor, g: Tensor) -> Tensor:
        raise NotImplementedError("backward is not written yet")

    with stand_in(module, cube, scaled(1.0)):
        module.check_gradients(x)
    with stand_in(module, cube, backward):
        try:
            return {"answer": module.check_gradients(x), "raised": None}
        except Exception as error:  # noqa: BLE001 - the judge decides what it means
            return {"answer": None, "raised": type(error).__name__}


def left_behind(module: Any, function: str, x: Tensor, settings: list[str]) -> list[dict[str, Any]]:
    """The state of x after the function ran on it, in each of these settings."""
    reports = []
    with stand_in(module, cube, scaled(1.0)):
        for setting in settings:
            given = x.clone().requires_grad_(setting != "plain")
            if setting == "with a gradient":
                given.grad = torch.full_like(x, 7.0)
            getattr(module, function)(given)
            reports.append(
                {
                    "values": given.detach().clone(),
                    "requires_grad": given.requires_grad,
                    "grad": given.grad,
                }
            )
    return reports


# --- the global random state ---------------------------------------------------------------------


def draws(module: Any, x: Tensor, seed: int) -> dict[str, dict[str, list[float]]]:
    """What the global random states draw next, for each of the functions after a call of it.

    They are seeded before the call, so that the judge knows what they draw if nobody touches them.
    """

    def both_passes() -> None:
        point = x.clone().requires_grad_()
        gradient(module.gelu(point), point)

    calls: dict[str, Callable[[], Any]] = {
        "gelu": both_passes,
        "gradient_error": lambda: module.gradient_error(x.clone()),
        "check_gradients": lambda: module.check_gradients(x.clone()),
    }
    drawn = {}
    for name, call in calls.items():
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        call()
        drawn[name] = {
            "torch": torch.rand(2, dtype=torch.float64).tolist(),
            "Python": [random.random()],
            "NumPy": [np.random.random_sample()],
        }
    return drawn
