# right: tuples instead of lists, ids of nodes that are held, an edge of the graph for a leaf, materialized zeros
import itertools

import torch


def visit(output):
    held = []
    ids = set()
    # For a leaf this edge leads to its AccumulateGrad node.
    edge = torch.autograd.graph.get_gradient_edge(output) if output.requires_grad else None
    waiting = [edge.node] if edge else []
    while waiting:
        ahead = []
        for node in waiting:
            if id(node) not in ids:
                ids.add(id(node))
                held.append(node)
                ahead.extend(n for n, _ in node.next_functions if n is not None)
        waiting = [n for i, n in enumerate(ahead) if id(n) not in ids]
    return held


def graph_nodes(output):
    return tuple(type(n).__name__ for n in visit(output)) if output.grad_fn is not None else ()


def graph_leaves(output):
    return tuple(n.variable for n in visit(output) if isinstance(getattr(n, "variable", None), torch.Tensor))


def separate_gradients(losses, parameters):
    parameters, copies = itertools.tee(parameters)
    targets = [p for p in parameters]
    assert len(targets) == len(list(copies))
    return [
        torch.autograd.grad([loss], targets, retain_graph=True, allow_unused=True, materialize_grads=True)
        for loss in losses
    ]
