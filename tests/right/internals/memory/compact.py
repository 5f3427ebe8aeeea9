# right: short, without types; keeps the saved tensors in a list
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint


def saved_bytes(f, *args, exclude=()):
    free = {t.untyped_storage().data_ptr() for t in exclude}
    kept = []

    def pack(t):
        kept.append(t)
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        f(*args)
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept}
    return sum(n for address, n in sizes.items() if address not in free)


def training_bytes(model, optimizer):
    def total(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    states = optimizer.state.values()
    return {
        "parameters": total(model.parameters()),
        "buffers": total(model.buffers()),
        "gradients": total(p.grad for p in model.parameters() if p.grad is not None),
        "optimizer_state": total(v for s in states for v in s.values() if torch.is_tensor(v)),
    }


def checkpointed_forward(layers, x):
    for layer in layers:
        x = checkpoint(layer, x, use_reentrant=False)
    return x
