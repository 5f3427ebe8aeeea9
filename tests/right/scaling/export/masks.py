# right: a mask as a factor, an example of its own size, ONNX by way of a file, a class for the modes
import inspect
import os
import tempfile

import torch
import torch.nn as nn


class Router(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.positive = nn.Linear(in_features, out_features)
        self.negative = nn.Linear(in_features, out_features)

    def forward(self, x):
        if x.mean() > 0:
            return self.positive(x)
        return self.negative(x)


class BranchFreeRouter(nn.Module):
    def __init__(self, router):
        super().__init__()
        self.layers = nn.ModuleList([router.negative, router.positive])

    def forward(self, x):
        decision = (x.mean() > 0).to(x.dtype)
        negative, positive = (layer(x) for layer in self.layers)
        return decision * positive + (1 - decision) * negative


class Modes:
    def __init__(self, model):
        self.model = model
        self.before = {name: module.training for name, module in model.named_modules()}

    def __enter__(self):
        return self.model.train(False)

    def __exit__(self, *_):
        for name, module in self.model.named_modules():
            module.training = self.before[name]


def two(example):
    return torch.zeros((2,) + tuple(example.shape[1:]), dtype=example.dtype)


def to_torchscript(model):
    with Modes(model) as m, torch.no_grad():
        return torch.jit.script(m)


def to_exported(model, example):
    with Modes(model) as m:
        shapes = {"input": {0: torch.export.Dim("n", min=1, max=1_000_000)}}
        names = list(inspect.signature(m.forward).parameters)
        return torch.export.export(m, (two(example),), dynamic_shapes={names[0]: shapes["input"]})


def largest_difference(model, exported, inputs):
    found = [0.0]
    with Modes(model) as m:
        for x in inputs:
            mine, theirs = m(x).detach(), exported(x).detach()
            if list(mine.shape) != list(theirs.shape):
                found.append(float("inf"))
                continue
            for a, b in zip(mine.flatten().tolist(), theirs.flatten().tolist()):
                gap = abs(a - b)
                found.append(gap if gap == gap else float("inf"))
    return max(found)


def to_onnx(model, example):
    with tempfile.TemporaryDirectory() as folder, Modes(model) as m:
        path = os.path.join(folder, "model.onnx")
        torch.onnx.export(
            m, two(example), path, input_names=["features"], output_names=["logits"],
            dynamic_axes={"features": [0], "logits": [0]}, opset_version=13, dynamo=False,
        )
        with open(path, "rb") as file:
            return file.read()
