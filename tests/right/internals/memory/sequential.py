# right: checkpoint_sequential with one more layer; numbers instead of tensors in the hooks; the state dict
import torch
from torch.utils.checkpoint import checkpoint_sequential

print("memory")


def saved_bytes(f, *args, exclude=()):
    storages = []

    def pack(t):
        storages.append(t.untyped_storage())
        return len(tensors), tensors.append(t.detach())

    tensors = []
    skip = set(map(lambda t: t.untyped_storage()._cdata, exclude))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda pair: tensors[pair[0]]):
        f(*args)
    unique = {s._cdata: s for s in storages}
    return sum(len(s) for k, s in unique.items() if k not in skip)


def _bytes(tensors):
    return sum(torch.numel(t) * t.dtype.itemsize for t in tensors)


def training_bytes(model, optimizer):
    parameters = dict(model.named_parameters()).values()
    state = optimizer.state_dict()["state"]
    return dict(
        parameters=_bytes(parameters),
        buffers=_bytes(dict(model.named_buffers()).values()),
        gradients=_bytes(filter(torch.is_tensor, (p.grad for p in parameters))),
        optimizer_state=_bytes(v for s in state.values() for v in s.values() if torch.is_tensor(v)),
    )


def checkpointed_forward(layers, x):
    layers = [*layers, torch.nn.Identity()]
    return checkpoint_sequential(layers, len(layers), x, use_reentrant=False)
