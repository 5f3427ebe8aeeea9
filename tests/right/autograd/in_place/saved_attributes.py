# right: reads the _saved attributes of the nodes; steps through detach(), which shares the version; writes into one fresh tensor
import torch


def in_place_outcome(x: torch.Tensor, forward) -> str:
    if x.requires_grad and x.grad_fn is None:
        return "leaf"
    memory = x.untyped_storage()._cdata
    y = forward(x)
    ahead, seen = [y.grad_fn], set()
    if x.grad_fn is not None:
        seen.add(x.grad_fn)  # what made x is no part of it
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for name in dir(node):
            if name.startswith("_saved_"):
                saved = getattr(node, name)
                for tensor in saved if isinstance(saved, (list, tuple)) else [saved]:
                    if isinstance(tensor, torch.Tensor) and tensor.untyped_storage()._cdata == memory:
                        return "needed"
        ahead += [following for following, _ in node.next_functions]
    return "safe"


def sgd_step(parameters, lr: float) -> None:
    for parameter in parameters:
        if parameter.grad is None:
            continue
        parameter.detach().sub_(parameter.grad.detach() * lr)


def exponential_average(x: torch.Tensor, momentum: float) -> torch.Tensor:
    if momentum > 1 or momentum < 0:
        raise ValueError("The momentum has to be a number from 0 to 1.")
    out = torch.zeros_like(x)
    for t in range(x.shape[0]):
        if t == 0:
            out[t] = x[t]
        else:
            out[t] = momentum * out[t - 1] + (1 - momentum) * x[t]
    return out
