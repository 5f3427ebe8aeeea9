# right: the average as a matrix of weights; the step by copy_; the outcome counts hits in a closure
import torch
from torch.autograd.graph import saved_tensors_hooks


def in_place_outcome(x, forward):
    hits = 0
    begin = x.untyped_storage().data_ptr()
    end = begin + x.untyped_storage().nbytes()

    def pack(t):
        nonlocal hits
        hits += begin <= t.data_ptr() < end
        return t

    if x.is_leaf and x.requires_grad:
        return "leaf"
    with saved_tensors_hooks(pack, lambda t: t):
        y = forward(x)
        has_graph = y.requires_grad
    return ("safe", "needed")[bool(has_graph and hits)]


def sgd_step(parameters, lr):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    try:
        for p in parameters:
            if isinstance(p.grad, torch.Tensor):
                p.copy_(p - lr * p.grad)
    finally:
        torch.set_grad_enabled(before)


def exponential_average(x, momentum):
    if not 0 <= momentum <= 1:
        raise ValueError("momentum out of range")
    n = x.shape[0]
    weights = x.new_zeros((n, n))
    for t in range(n):
        for k in range(t + 1):
            weights[t, k] = momentum ** (t - k) * (1 if k == 0 else 1 - momentum)
    return (weights @ x.reshape(n, -1)).reshape(x.shape) if x.numel() else x.clone()
