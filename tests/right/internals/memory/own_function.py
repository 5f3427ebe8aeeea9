# right: a Function of its own for the checkpoint; weak references to storages
from __future__ import annotations

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef


def saved_bytes(f, *args, exclude=()):
    excluded = {StorageWeakRef(t.untyped_storage()) for t in exclude}
    seen: set[StorageWeakRef] = set()
    total = 0

    def pack(t: Tensor) -> Tensor:
        nonlocal total
        # A weak reference keeps the handle of the storage, so that no other one gets it.
        reference = StorageWeakRef(t.untyped_storage())
        if reference not in seen and reference not in excluded:
            total += t.untyped_storage().nbytes()
        seen.add(reference)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        f(*args)
    return total


def training_bytes(model, optimizer):
    sizes = dict.fromkeys(("optimizer_state", "gradients", "buffers", "parameters"), 0)
    seen = set()
    for module in model.modules():
        for p in module._parameters.values():
            if p is not None and id(p) not in seen:
                seen.add(id(p))
                sizes["parameters"] += p.nelement() * p.element_size()
                if p.grad is not None:
                    sizes["gradients"] += p.grad.nbytes
        for b in module._buffers.values():
            if b is not None:
                sizes["buffers"] += b.nelement() * b.dtype.itemsize
    for state in optimizer.state_dict()["state"].values():
        for value in state.values():
            if isinstance(value, Tensor):
                sizes["optimizer_state"] += value.nelement() * value.dtype.itemsize
    return sizes


class Checkpoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layer, x, *parameters):
        ctx.layer, ctx.random = layer, torch.get_rng_state()
        ctx.save_for_backward(x)
        return layer(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        wanted = list(ctx.layer.parameters())
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.random)
            inside = x.detach().requires_grad_(ctx.needs_input_grad[1])
            y = ctx.layer(inside)
        leaves = [t for t in (inside, *wanted) if t.requires_grad]
        gradients = iter(torch.autograd.grad(y, leaves, gradient, allow_unused=True))
        return None, *(next(gradients) if t.requires_grad else None for t in (inside, *wanted))


def checkpointed_forward(layers, x):
    for layer in layers:
        x = Checkpoint.apply(layer, x, *layer.parameters())
    return x
