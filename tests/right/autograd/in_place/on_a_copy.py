# right: does it all to a copy, whose backward pass stops at leaves without touching .grad; lerp; the step by add_ with alpha
from itertools import accumulate

import torch


def _leaves(node, seen):
    if node is None or node in seen:
        return
    seen.add(node)
    if hasattr(node, "variable"):
        yield node.variable
    for following, _ in node.next_functions:
        yield from _leaves(following, seen)


def in_place_outcome(x, forward):
    if not x.requires_grad:
        stand_in = x.clone()
    elif x.is_leaf:
        return "leaf"
    else:
        stand_in = x.detach().clone().requires_grad_().mul(1)
    y = forward(stand_in)
    if not y.requires_grad:
        return "safe"
    leaves = list(_leaves(y.grad_fn, set()))
    stand_in.add_(1)
    try:
        torch.autograd.grad(y.sum(), leaves, allow_unused=True)
    except RuntimeError as error:
        assert "inplace" in str(error)
        return "needed"
    return "safe"


def sgd_step(parameters, lr):
    parameters = [p for p in parameters if p.grad is not None]
    with torch.no_grad():
        for p in parameters:
            p.add_(p.grad, alpha=-lr)


def exponential_average(x, momentum):
    if not (0 <= momentum <= 1):
        raise ValueError(f"momentum={momentum!r}")
    rows = list(accumulate(x.unbind(0), lambda state, row: torch.lerp(row, state, momentum)))
    return torch.stack(rows) if rows else x.new_zeros(x.shape)
