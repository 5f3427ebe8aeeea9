# right: two steps, device and then dtype; a generic map over the leaves of a batch
import torch
from torch.nn import Module


def map_leaves(function, batch):
    if isinstance(batch, dict):
        return {key: map_leaves(function, value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        parts = [map_leaves(function, value) for value in batch]
        if isinstance(batch, list):
            return parts
        make = getattr(type(batch), "_make", tuple)
        return make(parts)
    return function(batch)


def to_device(batch, device, dtype=None):
    is_bad = dtype is not None and (dtype.is_complex or not dtype.is_floating_point)
    if is_bad:
        raise ValueError(f"dtype={dtype}")

    def move(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        leaf = leaf.to(device=device)
        if dtype is None or leaf.dtype not in FLOATS:
            return leaf
        return leaf.to(dtype=dtype)

    return map_leaves(move, batch)


FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}


def unregistered(module):
    names = []

    def visit(part: Module, path):
        for name, value in list(part.__dict__.items()):
            if isinstance(value, torch.Tensor):
                names.append(".".join([*path, name]))
        for name, child in part.named_children():
            visit(child, [*path, name])

    visit(module, [])
    return sorted(names)


def misplaced(module, device):
    kind, _, index = str(device).partition(":")

    def is_there(tensor):
        place = tensor.device
        return place.type == kind and (not index or kind == "cpu" or str(place.index) == index)

    named = [*module.named_parameters(), *module.named_buffers()]
    for name in unregistered(module):
        path, _, last = name.rpartition(".")
        named.append((name, getattr(module.get_submodule(path), last)))
    return sorted(name for name, tensor in named if not is_there(tensor))
