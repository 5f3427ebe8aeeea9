# right: plain and short, tensor hooks for the gradients; most of the wrong answers are changes of it
from contextlib import contextmanager

import torch


def trace_shapes(model, x):
    shapes, handles = [], []

    def make(name):
        def hook(module, inputs, output):
            if isinstance(output, torch.Tensor):
                shapes.append((name, output.shape))

        return hook

    try:
        for name, module in model.named_modules():
            if not list(module.children()):
                handles.append(module.register_forward_hook(make(name)))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes


def find(model, names):
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules:
            raise ValueError(f"no module {name}")
    return modules


@contextmanager
def capture_activations(model, names):
    modules = find(model, names)
    kept, handles = {}, []

    def make(name):
        def hook(module, inputs, output):
            kept[name] = output.detach().clone()

        return hook

    for name in names:
        handles.append(modules[name].register_forward_hook(make(name)))
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def capture_gradients(model, names):
    modules = find(model, names)
    seen, handles = {}, []

    def make(name):
        def watch(grad):
            seen[name] = grad.detach()

        def hook(module, inputs, output):
            if output.requires_grad:
                handles.append(output.register_hook(watch))

        return hook

    for name in names:
        handles.append(modules[name].register_forward_hook(make(name)))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
