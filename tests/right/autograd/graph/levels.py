# right: whole levels at once, a dict as an ordered set; backward with inputs, and every .grad put back
import torch


def _levels(output):
    level = dict.fromkeys([output.grad_fn] if output.grad_fn else [])
    known = {}
    while level:
        known.update(level)
        level = dict.fromkeys(
            n for node in level for n, _ in node.next_functions if n is not None and n not in known
        )
    return list(known)


def graph_nodes(output):
    return [type(n).__name__ for n in _levels(output)]


def graph_leaves(output):
    found = [n.variable for n in _levels(output) if hasattr(n, "variable")]
    if not found and output.requires_grad:
        found = [output]
    return found


def separate_gradients(losses, parameters):
    parameters = list(parameters)
    before = [p.grad for p in parameters]
    result = []
    try:
        for loss in losses:
            for p in parameters:
                p.grad = None
            loss.backward(inputs=parameters, retain_graph=True)
            result.append([torch.zeros_like(p).detach() if p.grad is None else p.grad for p in parameters])
    finally:
        for p, grad in zip(parameters, before):
            p.grad = grad
    return result
