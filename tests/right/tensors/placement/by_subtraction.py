# right: unregistered names by subtraction, batches by a stack of closures
import torch


def to_device(batch, device, dtype=None):
    if dtype is not None and not torch.empty((), dtype=dtype).is_floating_point():
        raise ValueError("wrong dtype: " + str(dtype))

    def go(b):
        if torch.is_tensor(b):
            target = dtype if dtype is not None and b.is_floating_point() else b.dtype
            return (
                b
                if b.dtype == target and b.device == torch.device(device)
                else b.to(device, target)
            )
        if type(b) is dict:
            out = {}
            for k, v in b.items():
                out[k] = go(v)
            return out
        if type(b) is list or type(b) is tuple:
            return type(b)(go(v) for v in b)
        if isinstance(b, tuple):
            return b.__class__(**dict(zip(b._fields, map(go, b), strict=True)))
        return b

    return go(batch)


def everything(module):
    names = {}
    for prefix, part in module.named_modules():
        dot = prefix + "." if prefix else ""
        for name in {**part.__dict__, **part._parameters, **part._buffers}:
            value = getattr(part, name)
            if isinstance(value, torch.Tensor):
                names[dot + name] = value
    return names


def unregistered(module):
    registered = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    registered |= {name for name, _ in module.named_buffers(remove_duplicate=False)}
    return sorted(set(everything(module)) - registered)


def misplaced(module, device):
    want = torch.device(device)
    if want == torch.device("cpu:0"):
        want = torch.device("cpu")
    if want.index is None:
        return sorted(n for n, t in everything(module).items() if t.device.type != want.type)
    return sorted(n for n, t in everything(module).items() if t.device != want)
