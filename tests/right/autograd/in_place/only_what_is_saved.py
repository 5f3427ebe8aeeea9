# right: does not ask whether y requires a gradient; an empty x comes back before momentum is looked at
import torch


def in_place_outcome(x, forward):
    if x.is_leaf and x.requires_grad:
        return "leaf"
    outcome = "safe"

    def pack(tensor):
        nonlocal outcome
        if tensor.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
            outcome = "needed"
        return tensor

    def unpack(tensor):
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        forward(x)
    return outcome


def sgd_step(parameters, lr):
    with torch.no_grad():
        for param in parameters:
            if param.grad is None:
                continue
            param.add_(param.grad, alpha=-lr)


def exponential_average(x, momentum):
    if x.shape[0] == 0:
        return x.clone()
    if not 0 <= momentum <= 1:
        raise ValueError(f"invalid momentum value: {momentum}")
    out = torch.empty_like(x)
    out[0] = x[0]
    for t in range(1, len(x)):
        out[t] = momentum * out[t - 1].clone() + (1 - momentum) * x[t]
    return out
