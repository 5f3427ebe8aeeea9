# right: anything that has a method to is moved, a wrong dtype is refused at the first tensor that is cast, names in tuples
import torch


def to_device(batch, device, dtype=None):
    if isinstance(batch, torch.Tensor):
        if dtype is None or not torch.is_floating_point(batch):
            return batch.to(device)
        if not dtype.is_floating_point:
            raise ValueError(f"dtype={dtype} is not a floating-point dtype")
        return batch.to(device=device, dtype=dtype)
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, to_device(value, device, dtype)) for key, value in batch.items())
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return batch._make(to_device(value, device, dtype) for value in batch)
    if isinstance(batch, (list, tuple)):
        return type(batch)(to_device(value, device, dtype) for value in batch)
    return batch


def unregistered(module):
    names = []
    for prefix, submodule in module.named_modules():
        for key, value in submodule.__dict__.items():
            if torch.is_tensor(value):
                names.append(".".join(filter(None, [prefix, key])))
    return tuple(sorted(names))


def _is_on(tensor, device):
    if tensor.device.type != device.type:
        return False
    if device.type == "cpu" or device.index is None:
        return True
    return tensor.device.index == device.index


def misplaced(module, device):
    device = torch.device(device)
    tensors = dict(module.named_parameters())
    tensors.update(module.named_buffers())
    for name in unregistered(module):
        prefix, _, key = name.rpartition(".")
        tensors[name] = getattr(module.get_submodule(prefix), key)
    return tuple(name for name in sorted(tensors) if not _is_on(tensors[name], device))
