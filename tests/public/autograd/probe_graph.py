"""The examples' graphs."""

from __future__ import annotations

from typing import Any

import torch


def example(module: Any, function: str) -> Any:
    """The result of a function for one graph, with leaves replaced by their names."""
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    answer = getattr(module, function)((a.exp() * b + b).sum())
    if function == "graph_leaves" and isinstance(answer, (list, tuple)):
        return [_name(leaf, a, b) for leaf in answer]
    return answer


def _name(leaf: Any, a: Any, b: Any) -> str:
    return "a" if leaf is a else "b" if leaf is b else "another tensor"


def gradients(module: Any) -> Any:
    """The gradients of two losses that share a leaf."""
    a, b = (torch.tensor(n, requires_grad=True) for n in (2.0, 3.0))
    return module.separate_gradients([a * b, a * a], [a, b])
