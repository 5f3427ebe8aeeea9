# right: plain and short; most of the wrong answers are changes of it
import torch


def walk(output):
    nodes = []
    if output.grad_fn is not None:
        nodes.append(output.grad_fn)
    seen = set(nodes)
    for node in nodes:
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)
    return nodes


def graph_nodes(output):
    return [type(node).__name__ for node in walk(output)]


def graph_leaves(output):
    if output.is_leaf and output.requires_grad:
        return [output]
    return [node.variable for node in walk(output) if hasattr(node, "variable")]


def separate_gradients(losses, parameters):
    parameters = list(parameters)
    result = []
    for loss in losses:
        gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        pairs = zip(gradients, parameters)
        result.append([torch.zeros_like(p) if g is None else g for g, p in pairs])
    return result
