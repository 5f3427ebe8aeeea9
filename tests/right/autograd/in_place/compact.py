# right: plain and short; most of the wrong answers are changes of it
import torch
from torch.autograd.graph import saved_tensors_hooks


def in_place_outcome(x, forward):
    if x.is_leaf and x.requires_grad:
        return "leaf"
    saved = set()

    def pack(tensor):
        saved.add(tensor.untyped_storage().data_ptr())
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        y = forward(x)
    if y.requires_grad and x.untyped_storage().data_ptr() in saved:
        return "needed"
    return "safe"


@torch.no_grad()
def sgd_step(parameters, lr):
    for p in parameters:
        if p.grad is not None:
            p -= lr * p.grad


def exponential_average(x, momentum):
    if momentum < 0 or momentum > 1:
        raise ValueError("momentum is outside 0..1")
    averages = []
    for row in x:
        state = momentum * averages[-1] + (1 - momentum) * row if averages else row
        averages.append(state)
    return torch.stack(averages) if averages else torch.empty_like(x)
