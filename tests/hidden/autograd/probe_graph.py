"""Graphs over named leaves, and the results of the student's functions for them."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Tensors = dict[str, Tensor]

PARAMETERS = "abcd"  # of the losses; their leaf x is not a parameter


def orders(module: Any, function: str, texts: list[str], values: Tensors) -> dict[str, str]:
    """Return the names that graph_nodes or graph_leaves gives for each expression, in order."""
    return {text: " ".join(names(module, function, text, values)) for text in texts}


def counts(
    module: Any, function: str, texts: list[str], values: Tensors
) -> dict[str, dict[str, int]]:
    """Return how often graph_nodes or graph_leaves gives each name."""
    return {text: dict(Counter(names(module, function, text, values))) for text in texts}


def names(module: Any, function: str, text: str, values: Tensors) -> list[str]:
    """Return the names of the nodes or leaves that the function gives for one expression."""
    live = leaves_of(values)
    found = getattr(module, function)(build(text, live))
    return [each if isinstance(each, str) else name_of(each, live) for each in found]


def gradients_after(module: Any, function: str, text: str, values: Tensors) -> dict[str, Any]:
    """Return the gradients of the caller's backward pass after a call of the function."""
    live = leaves_of(values)
    built = build(text, live)
    getattr(module, function)(built)
    built.sum().backward()
    return {name: leaf.grad for name, leaf in live.items()}


def output(module: Any, text: str, values: Tensors) -> Tensor:
    return build(text, leaves_of(values))


def build(text: str, leaves: Tensors) -> Tensor:
    """Evaluate an expression of the leaves."""
    result: Tensor = eval(text, {"torch": torch, "F": F, "reduce": reduce, **leaves})
    return result


def leaves_of(values: Tensors) -> Tensors:
    return {name: value.clone().requires_grad_() for name, value in values.items()}


def name_of(value: Any, leaves: Tensors) -> str:
    """Return the name of the leaf that is this very object."""
    for name, leaf in leaves.items():
        if leaf is value:
            return name
    return f"another {type(value).__name__}"


def losses(module: Any, values: Tensors) -> list[Tensor]:
    return losses_of(leaves_of(values))


def losses_of(leaves: Tensors) -> list[Tensor]:
    """Return three losses that share parts of their graphs. None of them reaches d."""
    hidden = (leaves["x"] @ leaves["a"]).tanh()
    return [
        (hidden * leaves["b"]).sum(),
        hidden.square().mean(),
        (leaves["c"] ** 3).sum() + hidden.sum(),
    ]


def separated(module: Any, values: Tensors, grads: Tensors) -> dict[str, Any]:
    """Return the separate gradients, whether each requires a gradient, and every .grad afterwards."""
    live = leaves_of(values)
    for name, grad in grads.items():
        live[name].grad = grad.clone()
    answer = module.separate_gradients(losses_of(live), [live[name] for name in PARAMETERS])
    return {
        "answer": answer,
        "requires_grad": [[gradient.requires_grad for gradient in row] for row in answer],
        "grads": {name: leaf.grad for name, leaf in live.items()},
    }


def of_a_generator(module: Any, values: Tensors) -> Any:
    """Return the separate gradients for parameters that come from a generator."""
    live = leaves_of(values)
    return module.separate_gradients(losses_of(live), (live[name] for name in PARAMETERS))


def backward_after_separating(module: Any, values: Tensors) -> Any:
    """Return a.grad after the caller's own backward passes, the last loss first."""
    live = leaves_of(values)
    first, second, third = losses_of(live)
    module.separate_gradients([first, second, third], [live[name] for name in PARAMETERS])
    third.backward(retain_graph=True)
    second.backward(retain_graph=True)
    first.backward()
    return live["a"].grad
