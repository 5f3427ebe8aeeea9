# right: the checkpoint by saved_tensors_hooks, which recompute when the first tensor is wanted
import torch
from torch.autograd.graph import saved_tensors_hooks


def saved_bytes(f, *args, exclude=()):
    excluded = {t.untyped_storage().data_ptr(): t for t in exclude}
    kept = {}

    def pack(t):
        # Detached, under its own address, and kept as a view of the whole storage.
        return kept.setdefault(t.untyped_storage().data_ptr(), []).append(t.detach()) or t.detach()

    with saved_tensors_hooks(pack, lambda t: t):
        f(*args)
    return sum(ts[0].untyped_storage().nbytes() for a, ts in kept.items() if a not in excluded)


def training_bytes(model, optimizer):
    result = {"parameters": 0, "buffers": 0, "gradients": 0, "optimizer_state": 0}
    for parameter in model.parameters():
        result["parameters"] += parameter.numel() * parameter.element_size()
        if (gradient := parameter.grad) is not None:
            result["gradients"] += gradient.numel() * gradient.element_size()
    for buffer in model.buffers():
        result["buffers"] += buffer.numel() * buffer.element_size()
    for key in list(optimizer.state):
        for value in optimizer.state[key].values():
            if hasattr(value, "element_size"):
                result["optimizer_state"] += value.numel() * value.element_size()
    return result


def one(layer, x):
    state, places, again = torch.get_rng_state(), [], {}

    def pack(tensor):
        places.append(len(places))
        return places[-1]

    def collect(tensor):
        again[len(again)] = tensor.detach()
        return tensor

    def unpack(place):
        if place not in again:
            again.clear()
            before = torch.get_rng_state()
            try:
                torch.set_rng_state(state)
                with torch.enable_grad(), saved_tensors_hooks(collect, lambda t: t):
                    layer(x)
            finally:
                torch.set_rng_state(before)
        return again.pop(place) if place == 0 else again[place]

    with saved_tensors_hooks(pack, unpack):
        return layer(x)


def checkpointed_forward(layers, x):
    for layer in layers:
        x = one(layer, x)
    return x
