"""Graphs with leaves that have names, the walk through them, and what is left of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Built:
    """The output that an expression is, over leaves a, b, c, p, many and e, an empty one."""

    def __init__(self, text: str) -> None:
        leaves = [torch.linspace(0.5, n, 6).reshape(2, 3).requires_grad_() for n in (1, 2, 3)]
        leaves[1].grad = torch.full((2, 3), 7.0)
        leaves.append(torch.ones(0, requires_grad=True))
        many = [one.detach().requires_grad_() for one in torch.ones(1).expand(60)]  # one memory
        self.leaves = dict(zip("abce", leaves, strict=True), p=nn.Parameter(torch.ones(3)))
        known = {"torch": torch, "F": F, "repeat": _repeat, "many": many}
        self.output = eval(text, {**known, **self.leaves, "off": _off})
        self.leaves |= {f"many[{i}]": leaf for i, leaf in enumerate(many)}

    def name(self, value: Any) -> str:
        """The name of the leaf that this object is."""
        names = [name for name, leaf in self.leaves.items() if leaf is value]
        return names[0] if names else f"another {type(value).__name__}"

    def walk(self) -> list[Any]:
        """Each node: both of its names, the places of the next ones (None where there is none), its leaf."""
        nodes: list[Any] = [node for node in [self.output.grad_fn] if node is not None]
        places = dict.fromkeys(nodes, 0)
        rows = []
        for node in nodes:
            ahead = [following for following, _ in node.next_functions]
            for following in ahead:
                if following is not None and following not in places:
                    places[following] = len(nodes)
                    nodes.append(following)
            leaf = self.name(node.variable) if hasattr(node, "variable") else None
            rows.append([type(node).__name__, node.name(), [*map(places.get, ahead)], leaf])
        return rows


def _repeat(times: int, y: Tensor, operation: Callable[[Tensor], Tensor]) -> Tensor:
    for _ in range(times):
        y = operation(y)
    return y


def _off(operation: Callable[[], Tensor]) -> Tensor:
    with torch.no_grad():
        return operation()


def output(module: Any, text: str) -> Any:
    return Built(text).output


def rows(module: Any, texts: list[str]) -> list[list[Any]]:
    """The walks through the graphs of these outputs, which call nothing of the student's."""
    return [Built(text).walk() for text in texts]


def answer(module: Any, function: str, text: str) -> Any:
    """What a function says of a graph, leaves by their names."""
    built = Built(text)
    answer = getattr(module, function)(built.output)
    if function == "graph_leaves" and isinstance(answer, (list, tuple)):
        answer = [built.name(item) for item in answer]
    return answer


def backward_after(module: Any, function: str, text: str) -> str | None:
    """The error of the caller's backward pass after a call of the function."""
    output = Built(text).output
    getattr(module, function)(output)
    try:
        output.sum().backward()
    except RuntimeError as error:
        return str(error)
    return None


def runs(module: Any, text: str) -> Any:
    """What graph_nodes says of a large graph: each name with how often it stands there in a row."""
    answer = module.graph_nodes(Built(text).output)
    if not isinstance(answer, (list, tuple)):
        return answer
    return [[name, len(list(group))] for name, group in itertools.groupby(answer)]


class Losses:
    """Three losses with shared parts over parameters a, b, c, d, and x, a leaf beside them."""

    def __init__(self, values: dict[str, Tensor], grads: dict[str, Tensor]) -> None:
        self.leaves = {name: value.requires_grad_() for name, value in values.items()}
        for name, leaf in self.leaves.items():
            leaf.grad = grads.get(name)
        x, a, b, c, _ = self.leaves.values()
        hidden = (x @ a).tanh()
        self.losses = [(hidden * b).sum(), hidden.square().mean(), (c**3).sum() + hidden.sum()]

    def grads(self) -> dict[str, Any]:
        return {n: None if p.grad is None else p.grad.clone() for n, p in self.leaves.items()}


def losses(module: Any, values: dict[str, Tensor]) -> list[Tensor]:
    return Losses(values, {}).losses


def separated(
    module: Any, values: dict[str, Tensor], grads: dict[str, Tensor], count: int, given: str
) -> dict[str, Any]:
    """The gradients of the first losses, whether they have a graph, and what is left of every .grad.

    `later` are the gradients that the caller's own backward passes give afterwards, or their error.
    """
    live = Losses(values, grads)
    parameters = list(live.leaves.values())[1:]
    source = (p for p in parameters) if given == "generator" else parameters
    answer = module.separate_gradients(live.losses[:count], source)
    flags = [getattr(gradient, "requires_grad", None) for row in answer for gradient in row]
    report = {"answer": answer, "requires_grad": flags, "grads": live.grads()}
    for p in live.leaves.values():
        p.grad = None
    try:
        for i in reversed(range(count)):
            live.losses[i].backward(retain_graph=i > 0)
    except RuntimeError as error:
        return {**report, "later": str(error)}
    return {**report, "later": live.grads()}
