# right: compact, without type hints; watch_gradients is a class; a generator of tensors
import re
import torch


def gradient_norms(model):
    return {n: None if p.grad is None else float(torch.linalg.vector_norm(p.grad)) for n, p in model.named_parameters()}


def tensors(value):
    if torch.is_tensor(value):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))


def finite(value):
    return all(torch.isfinite(t).all() for t in tensors(value))


def first_non_finite(model, *inputs):
    found, handles = [], []
    for name, module in model.named_modules():
        def hook(module, args, output, name=name):
            if not finite(output):
                found.append(name)
        handles.append(module.register_forward_hook(hook))
    try:
        model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None


class watch_gradients:
    def __init__(self, model):
        self.model = model
        self.handles = []

    def __enter__(self):
        for name, p in self.model.named_parameters():
            if p.requires_grad:
                self.handles.append(p.register_hook(self.hook(name)))
        return self

    def hook(self, name):
        def check(grad):
            if not finite(grad):
                raise RuntimeError(f"{name}: not finite")
        return check

    def __exit__(self, *error):
        for handle in self.handles:
            handle.remove()


def backward_nan(closure):
    with torch.autograd.set_detect_anomaly(True):
        loss = closure()
        try:
            loss.backward()
        except RuntimeError as error:
            match = re.search(r"Function '(.+)' returned nan values", str(error))
            if not match:
                raise
            return match.group(1)
