# right: typed, one generator for both walks; a backward pass for each loss through get_gradient_edge of the loss
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor


def breadth_first(root) -> Iterator[object]:
    order = [root] * (root is not None)
    member = dict.fromkeys(order, True)
    position = 0
    while position < len(order):
        node = order[position]
        position += 1
        yield node
        for child, _number in node.next_functions:
            if child and child not in member:
                member[child] = True
                order.append(child)


def graph_nodes(output: Tensor) -> list[str]:
    return list(map(lambda node: type(node).__name__, breadth_first(output.grad_fn)))


def graph_leaves(output: Tensor) -> list[Tensor]:
    if not output.requires_grad:
        return []
    if output.is_leaf:
        return [output]
    variables = (getattr(node, "variable", None) for node in breadth_first(output.grad_fn))
    return [variable for variable in variables if variable is not None]


def separate_gradients(losses: Sequence[Tensor], parameters: Iterable[Tensor]) -> list[list[Tensor]]:
    parameters = [*parameters]
    one = partial(torch.autograd.grad, inputs=parameters, retain_graph=True, allow_unused=True)

    def row(loss: Tensor) -> list[Tensor]:
        return [p.new_zeros(p.shape) if g is None else g for g, p in zip(one([loss]), parameters)]

    return [row(loss) for loss in losses]
