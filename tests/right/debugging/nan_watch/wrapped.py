# right: loops by hand, partials, a stack instead of recursion, anomaly switched and put back by hand
import functools
from contextlib import contextmanager

import torch


def is_fine(value):
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, torch.Tensor):
            if item.numel() and item.is_floating_point():
                low, high = torch.aminmax(item)  # NaN in either where there is one
                if not (torch.isfinite(low) and torch.isfinite(high)):
                    return False
        elif isinstance(item, dict):
            todo += item.values()
        elif isinstance(item, (tuple, list)):
            todo += item
    return True


def gradient_norms(model):
    norms = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            norms[name] = None
        else:
            norms[name] = parameter.grad.detach().double().flatten().norm(p=2).item()
    return norms


def note(seen, name, module, inputs, outputs):
    if not is_fine(outputs):
        seen.setdefault("name", name)


@contextmanager
def hooked(pairs):
    handles = []
    try:
        for register, hook in pairs:
            handles.append(register(hook))
        yield
    finally:
        [handle.remove() for handle in handles]


def first_non_finite(model, *inputs):
    seen = {}
    pairs = [
        (module.register_forward_hook, functools.partial(note, seen, name))
        for name, module in model.named_modules()
    ]
    with hooked(pairs):
        model(*inputs)
    return seen.get("name")


def complain(name, grad):
    if not is_fine(grad):
        raise RuntimeError(name)


def watch_gradients(model):
    return hooked(
        [
            (p.register_hook, functools.partial(complain, name))
            for name, p in model.named_parameters()
            if p.requires_grad
        ]
    )


def backward_nan(closure):
    on, check = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    torch.autograd.set_detect_anomaly(True)
    try:
        loss = closure()
        try:
            loss.backward()
        except NotImplementedError:
            raise
        except RuntimeError as error:
            words = str(error).split()
            if words[0] == "Function" and words[2:5] == ["returned", "nan", "values"]:
                return words[1].strip("'")
            raise
    finally:
        torch.autograd.set_detect_anomaly(on, check)
