# right: classes; a block is entered by hand; the checkpoint is composed by functools.reduce
import contextlib
import functools
from collections import ChainMap

import torch
from torch.utils import checkpoint as library


class Meter(contextlib.ContextDecorator):
    def __init__(self, exclude):
        self.excluded = [t.untyped_storage() for t in exclude]
        self.storages = []
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)

    def pack(self, tensor):
        storage = tensor.untyped_storage()
        if all(storage._cdata != s._cdata for s in self.storages + self.excluded):
            self.storages.append(storage)
        return [tensor]

    def unpack(self, packed):
        return packed[0]

    def __enter__(self):
        self.hooks.__enter__()
        return self

    def __exit__(self, *error):
        self.hooks.__exit__(*error)
        return False

    @property
    def bytes(self):
        return sum(len(s) for s in self.storages)


def saved_bytes(f, *args, exclude=()):
    with Meter(exclude) as meter:
        f(*args)
    return meter.bytes


def weigh(tensor):
    return tensor.numel() * tensor.element_size() if isinstance(tensor, torch.Tensor) else 0


def training_bytes(model, optimizer):
    parameters = [p for _, p in model.named_parameters()]
    entries = [value for state in optimizer.state.values() for value in ChainMap(state).values()]
    parts = {
        "optimizer_state": entries,
        "gradients": [p.grad for p in parameters],
        "parameters": parameters,
        "buffers": [b for _, b in model.named_buffers()],
    }
    return {name: sum(map(weigh, tensors)) for name, tensors in parts.items()}


def checkpointed_forward(layers, x):
    once = functools.partial(library.checkpoint, use_reentrant=False, preserve_rng_state=True)
    return functools.reduce(lambda value, layer: once(layer, value), layers, x)
