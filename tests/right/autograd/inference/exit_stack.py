# right: an ExitStack of callbacks; grad mode set by hand; one result tensor filled batch by batch
import contextlib

import torch
from torch import nn


def evaluating(model):
    @contextlib.contextmanager
    def block():
        with contextlib.ExitStack() as stack:
            stack.callback(torch.set_grad_enabled, torch.is_grad_enabled())
            for module in model.modules():
                stack.callback(setattr, module, "training", module.training)
                module.training = False
            torch.set_grad_enabled(False)
            yield stack

    return block()


def predict(model: nn.Module, loader):
    result = None
    with evaluating(model):
        for inputs, targets in iter(loader):
            output = model(inputs)
            result = output if result is None else torch.cat((result, output), 0)
    if result is None:
        raise ValueError("The loader is empty.")
    return result


def ordinary(x):
    if x.is_inference() is False:
        return x
    with torch.inference_mode(False):
        return torch.empty_like(x).copy_(x).detach()
