# right: plain and short; most of the wrong answers are changes of it
import contextlib

import torch


@contextlib.contextmanager
def evaluating(model):
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for m, mode in modes:
            m.training = mode


def predict(model, loader):
    outputs = []
    with evaluating(model):
        for inputs, _ in loader:
            outputs.append(model(inputs))
    if not outputs:
        raise ValueError("loader yields nothing")
    return torch.cat(outputs)


def ordinary(x):
    if x.is_inference():
        with torch.inference_mode(False):
            x = x.clone()
    return x
