"""The autograd graphs of calls that the judge may come back to for gradients."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

from grader.sandbox.inside.guard import Watch, watching

if TYPE_CHECKING:
    import torch

__all__ = ["Graph", "products"]


class Graph:
    """A call whose autograd graph the judge may come back to."""

    def __init__(
        self, inputs: list[torch.Tensor], outputs: list[torch.Tensor], watches: list[Watch]
    ) -> None:
        self.inputs, self.outputs, self.watches = inputs, outputs, watches


def products(graph: Graph, gradients: list[torch.Tensor], differentiable: bool) -> list[Any]:
    """The vector-Jacobian products of a graph, one for each input (None where it is not reached).

    The gradients go in as factors of a sum and not as `grad_outputs`: for these torch imports
    its symbolic shapes, and with them sympy (0.3 s in every cold start).
    """
    torch = sys.modules["torch"]
    total = sum((o * g).sum() for o, g in zip(graph.outputs, gradients, strict=True))
    # The public name may have a guard around it, which is for the student.
    grad = inspect.unwrap(torch.autograd.grad)
    with watching(graph.watches):
        found = grad(
            total,
            graph.inputs,
            create_graph=differentiable,
            retain_graph=True,
            allow_unused=True,
        )
    return list(found)
