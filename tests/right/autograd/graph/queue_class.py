# right: a class with a deque; gradients with a graph of their own that is cut off; a parameter at a time
from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.autograd.graph import Node


@dataclass
class Walker:
    start: Node | None
    seen: set[Node] = field(default_factory=set)

    def __iter__(self) -> Iterator[Node]:
        queue: deque[Node] = deque()
        self._meet(self.start, queue)
        while queue:
            node = queue.popleft()
            yield node
            for pair in node.next_functions:
                self._meet(pair[0], queue)

    def _meet(self, node: Node | None, queue: deque[Node]) -> None:
        if node is None or node in self.seen:
            return
        self.seen.add(node)
        queue.append(node)


def graph_nodes(output: Tensor) -> list[str]:
    return [node.__class__.__name__ for node in Walker(output.grad_fn)]


def graph_leaves(output: Tensor) -> list[Tensor]:
    if output.requires_grad and output.grad_fn is None:
        return [output]
    walker = Walker(output.grad_fn)
    return [node.variable for node in walker if type(node).__name__ == "AccumulateGrad"]


def separate_gradients(losses: Sequence[Tensor], parameters: Iterable[Tensor]) -> list[list[Tensor]]:
    wanted = tuple(parameters)
    table = []
    for loss in losses:
        row = []
        for p in wanted:
            (g,) = torch.autograd.grad(loss, p, create_graph=True, allow_unused=True)
            row.append(torch.zeros_like(p, requires_grad=False) if g is None else g.detach())
        table.append(row)
    return table
