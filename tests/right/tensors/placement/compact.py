# right: plain and short; most of the wrong answers are changes of it
import torch


def to_device(batch, device, dtype=None):
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError("dtype is not floating-point")
    if isinstance(batch, torch.Tensor):
        if dtype is not None and batch.is_floating_point():
            return batch.to(device, dtype)
        return batch.to(device)
    if isinstance(batch, dict):
        return {k: to_device(v, device, dtype) for k, v in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*[to_device(v, device, dtype) for v in batch])
    if isinstance(batch, (list, tuple)):
        return type(batch)([to_device(v, device, dtype) for v in batch])
    return batch


def plain(module):
    for path, m in module.named_modules():
        for name, value in m.__dict__.items():
            if isinstance(value, torch.Tensor):
                yield (path + "." + name if path else name), value


def unregistered(module):
    return sorted(name for name, _ in plain(module))


def misplaced(module, device):
    device = torch.device(device)
    names = []
    tensors = list(module.named_parameters()) + list(module.named_buffers()) + list(plain(module))
    for name, t in tensors:
        same_index = device.index is None or device.type == "cpu" or t.device.index == device.index
        if t.device.type != device.type or not same_index:
            names.append(name)
    return sorted(names)
