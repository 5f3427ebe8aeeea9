# right: both results stacked and one picked by an index, Dim.AUTO, a script of a traced part
from functools import reduce
from io import BytesIO

import torch
from torch import nn


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
    def __init__(self, router: Router):
        nn.Module.__init__(self)
        self.add_module("yes", router.positive)
        self.add_module("no", router.negative)

    def forward(self, batch):
        both = torch.stack([self.no(batch), self.yes(batch)])
        which = (batch.sum() > 0).long().reshape(1)
        return both.index_select(0, which)[0]


def in_eval(function):
    def wrapped(model, *args):
        state = [(m, m.training) for m in model.modules()]
        try:
            return function(model.eval(), *args)
        finally:
            [m.__setattr__("training", mode) for m, mode in state]

    return wrapped


@in_eval
def to_torchscript(model):
    return torch.jit.optimize_for_inference(torch.jit.script(model)) if False else torch.jit.script(model)


@in_eval
def to_exported(model, example):
    if example.shape[0] == 1:
        example = example.expand(4, *example.shape[1:]).clone()
    return torch.export.export(model, (example,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},), strict=False)


@in_eval
def largest_difference(model, exported, inputs):
    def one(x):
        a, b = model(x), exported(x)
        if a.size() != b.size():
            return torch.inf
        if not a.numel():
            return 0.0
        value = float(torch.linalg.vector_norm((a - b).detach().flatten(), ord=float("inf")))
        return torch.inf if value != value else value

    return reduce(max, (one(x) for x in inputs), 0.0)


@in_eval
def to_onnx(model, example):
    buffer = BytesIO()
    example = torch.cat([example] * 2)
    torch.onnx.export(
        torch.jit.trace(model, example), (example,), buffer, export_params=True,
        input_names=["features"], output_names=["logits"],
        dynamic_axes={"features": {0: "n"}, "logits": {0: "n"}}, dynamo=False,
    )
    return buffer.getvalue()
