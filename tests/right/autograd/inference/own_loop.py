# right: predict has its own try and finally; ordinary goes by way of NumPy
import contextlib

import numpy as np
import torch


@contextlib.contextmanager
def evaluating(model):
    training = {module for module in model.modules() if module.training}
    try:
        with torch.inference_mode():
            yield model.eval()
    finally:
        for module in training:
            module.training = True


def predict(model, loader):
    before = [(module, module.training) for module in model.modules()]
    outputs = list()
    try:
        model.eval()
        for batch in loader:
            x = batch[0]
            with torch.no_grad():
                outputs += [model(x)]
    finally:
        [setattr(module, "training", mode) for module, mode in before]
    if outputs == []:
        raise ValueError("loader: nothing came out of it")
    return torch.cat(outputs)


def ordinary(x):
    if not torch.is_inference(x):
        return x
    with torch.inference_mode(False):
        return torch.from_numpy(np.array(x.numpy(), copy=True))
