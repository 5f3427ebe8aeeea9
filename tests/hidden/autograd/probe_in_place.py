"""Live tensors for in_place_outcome and sgd_step, and raw facts about them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def outcomes(module: Any, values: Tensor, questions: list[tuple[str, str]]) -> list[Any]:
    """What in_place_outcome says of an x of each kind and of the forward of its text."""
    live = [(_Live(kind, values), text) for kind, text in questions]
    return [module.in_place_outcome(of.x, of.forward(text)) for of, text in live]


def left(module: Any, kind: str, values: Tensor, text: str) -> dict[str, Any]:
    """All that in_place_outcome could have changed, before and after a call."""
    live = _Live(kind, values)
    before = live.facts()
    module.in_place_outcome(live.x, live.forward(text))
    after = live.facts()
    if not live.x.is_leaf:
        try:
            torch.autograd.grad(live.x.sum(), live.sources)
        except RuntimeError as error:
            after["backward from x"] = f"raises {error}"
    return {"before": before, "after": after}


def cube(module: Any) -> Callable[[Tensor], Tensor]:
    """A forward that saves x."""
    return lambda x: x**3


class _Live:
    """An x of these values, and what else a forward may use: constants c and k, parameters w and m."""

    def __init__(self, kind: str, values: Tensor) -> None:
        # Where x is a result of these, the multiplication has saved them, and not x.
        self.sources = [values.clone().requires_grad_(), torch.ones_like(values).requires_grad_()]
        self.w = nn.Parameter(torch.full_like(values, 0.5))
        self.m = nn.Parameter(torch.full((*values.shape[-1:], 2), 0.25, dtype=values.dtype))
        self.sources[0].grad, self.w.grad = torch.ones_like(values), torch.ones_like(values)
        self.x = operator.mul(*self.sources)
        if kind.startswith(("a leaf", "data")):
            self.x = values.clone().requires_grad_("leaf" in kind)

    def forward(self, text: str) -> Callable[[Tensor], Tensor]:
        """The function of x that this expression is."""
        c, k = torch.full_like(self.w.data, 3.0), torch.full_like(self.m.data, 2.0)
        names = {"torch": torch, "F": F, "w": self.w, "m": self.m, "c": c, "k": k}
        function: Callable[[Tensor], Tensor] = eval(f"lambda x: {text}", names)
        return function

    def facts(self) -> dict[str, Any]:
        x = self.x
        return {
            "x._version": x._version,
            "x": x.detach().clone(),
            "x.requires_grad": x.requires_grad,
            "x.grad_fn": type(x.grad_fn).__name__,
            "x.grad": _copy(x.grad) if x.is_leaf else None,
            "the .grad of a parameter in forward": [_copy(p.grad) for p in (self.w, self.m)],
            "the .grad of a leaf behind x": [_copy(leaf.grad) for leaf in self.sources],
            "backward from x": "fine",
        }


def _copy(grad: Tensor | None) -> Tensor | None:
    return None if grad is None else grad.clone()


def parameters(module: Any, values: list[Tensor], grads: list[Tensor | None]) -> list[Tensor]:
    """Parameters of these values and gradients, some of which are no nn.Parameter; the last one is frozen."""
    made = []
    for i, (value, grad) in enumerate(zip(values, grads, strict=True)):
        leaf = nn.Parameter(value) if i % 2 == 0 else value.detach().requires_grad_()
        leaf.grad = grad
        made.append(leaf)
    return [*made, nn.Parameter(torch.ones(2), requires_grad=False)]


def step(module: Any, parameters: list[Tensor], lr: float, given: str) -> bool:
    """Grad mode after one sgd_step of parameters that are given like this."""
    with torch.set_grad_enabled("off" not in given):
        module.sgd_step((p for p in parameters) if "generator" in given else parameters, lr)
        return torch.is_grad_enabled()


def older_graph(module: Any, value: Tensor, grad: Tensor, lr: float) -> Tensor | str:
    """The gradient of p**2 or the error that its backward pass raises after a step of p."""
    p = nn.Parameter(value)
    total, p.grad = (p * p).sum(), grad
    module.sgd_step([p], lr)
    try:
        return torch.autograd.grad(total, p)[0]
    except RuntimeError as error:
        return str(error)
