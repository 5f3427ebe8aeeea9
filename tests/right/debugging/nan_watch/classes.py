# right: class-heavy, always_call hooks, detect_anomaly, numpy for the norm
import inspect
import warnings
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn


@dataclass
class Watcher:
    model: nn.Module
    handles: list = field(default_factory=list)
    first: str = None

    def add(self, handle):
        self.handles.append(handle)

    def close(self):
        while self.handles:
            self.handles.pop().remove()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()
        return False

    @staticmethod
    def spoiled(value):
        match value:
            case torch.Tensor():
                if not (value.is_floating_point() or value.is_complex()):
                    return False
                return bool((value.isnan() | value.isinf()).any().item())
            case dict():
                return any(map(Watcher.spoiled, value.values()))
            case list() | tuple():
                return any(map(Watcher.spoiled, value))
        return False


class ModuleWatcher(Watcher):
    def __enter__(self):
        for name, module in self.model.named_modules():
            self.add(module.register_forward_hook(self.hook(name), always_call=False))
        return self

    def hook(self, name):
        def look(module, inputs, outputs):
            if self.first is None and self.spoiled(outputs):
                self.first = name

        return look


class GradientWatcher(Watcher):
    def __enter__(self):
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                self.add(parameter.register_hook(lambda grad, name=name: self.look(name, grad)))
        return self

    def look(self, name, grad):
        if self.spoiled(grad):
            raise FloatingPointError_(name)


class FloatingPointError_(RuntimeError):
    def __str__(self):
        return f"There is a NaN or an inf in the gradient of {self.args[0]}."


def gradient_norms(model):
    norms = dict.fromkeys(name for name, _ in model.named_parameters())
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            norms[name] = float(np.linalg.norm(parameter.grad.detach().numpy().ravel()))
    return norms


def first_non_finite(model, *inputs):
    with ModuleWatcher(model) as watcher:
        model(*inputs)
    return watcher.first


def watch_gradients(model):
    return GradientWatcher(model)


def backward_nan(closure):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            loss = closure()
            try:
                loss.backward()
            except RuntimeError as error:
                text = str(error)
                if not (text.startswith("Function '") and "' returned nan values" in text):
                    raise
                return text.split("'")[1]
    return None
