"""Live tensors for in_place_outcome and sgd_step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Forward = Callable[[Tensor], Tensor]


def outcomes(
    module: Any, values: Tensor, others: dict[str, Tensor], questions: list[tuple[str, str]]
) -> dict[str, Any]:
    """Return in_place_outcome for each question: a kind of x, and the text of a forward."""
    return {
        f"{kind}: {text}": module.in_place_outcome(x_of(kind, values), forward(others, text))
        for kind, text in questions
    }


def x_of(kind: str, values: Tensor) -> Tensor:
    """Make an x of these values: a "leaf" that requires a gradient, a "result", or "data"."""
    if kind == "leaf":
        return values.clone().requires_grad_()
    if kind == "result":
        return values.clone().requires_grad_() * 1
    return values.clone()


def forward(others: dict[str, Tensor], text: str) -> Forward:
    """Make a function of x from an expression with parameters w and m and a constant c."""
    w, m = nn.Parameter(others["w"]), nn.Parameter(others["m"])
    function: Forward = eval(f"lambda x: {text}", {"w": w, "m": m, "c": others["c"]})
    return function


def square(module: Any) -> Forward:
    """Return a forward whose graph saves x."""
    return lambda x: x * x


def what_is_left(module: Any, values: Tensor, factor: Tensor, grad: Tensor) -> dict[str, Any]:
    """Return x, its version and gradients after a call of in_place_outcome with `x + w`."""
    source, w = values.clone().requires_grad_(), nn.Parameter(factor)
    source.grad, w.grad = grad.clone(), grad.clone()
    x = source * factor
    module.in_place_outcome(x, lambda x: x + w)
    (gradient,) = torch.autograd.grad(x.sum(), source)
    return {
        "x": x,
        "x._version": x._version,
        "the gradient of x.sum() at the tensor behind x": gradient,
        "the .grad of the tensor behind x": source.grad,
        "the .grad of w": w.grad,
    }


def parameters(module: Any, values: list[Tensor], grads: list[Tensor | None]) -> list[Tensor]:
    """Make parameters with these values and gradients, and a frozen one."""
    made = [nn.Parameter(value) for value in values]
    for parameter, grad in zip(made, grads, strict=True):
        parameter.grad = grad
    return [*made, nn.Parameter(torch.ones(2), requires_grad=False)]


def stepped_by_a_generator(
    module: Any, values: list[Tensor], grads: list[Tensor | None], lr: float
) -> list[Tensor]:
    """Return the parameters after one sgd_step that gets them from a generator."""
    made = parameters(module, values, grads)
    module.sgd_step((parameter for parameter in made), lr)
    return made[:-1]


def older_graph(module: Any, value: Tensor, grad: Tensor, lr: float) -> Tensor:
    """Compute the gradient of p**2 after a step has changed p."""
    p = nn.Parameter(value)
    total = (p * p).sum()
    p.grad = grad
    module.sgd_step([p], lr)
    return torch.autograd.grad(total, p)[0]
