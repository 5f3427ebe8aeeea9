# right: compact and untyped; deep copies in eval mode, so that the model is never touched
import copy
import io

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
    def __init__(self, router):
        super().__init__()
        self.a, self.b = router.positive, router.negative

    def forward(self, x):
        return torch.where(x.mean() > 0, self.a(x), self.b(x))


def to_torchscript(model):
    return torch.jit.script(copy.deepcopy(model).eval())


def to_exported(model, example):
    x = torch.cat([example, example])
    d = torch.export.Dim("batch", min=1)
    return torch.export.export(copy.deepcopy(model).eval(), (x,), dynamic_shapes=({0: d},))


def largest_difference(model, exported, inputs):
    modes = {m: m.training for m in model.modules()}
    model.eval()
    worst = 0.0
    for x in inputs:
        a, b = model(x), exported(x)
        if a.shape != b.shape:
            worst = float("inf")
        elif a.numel() > 0:
            d = (a - b).abs()
            worst = max(worst, float("inf") if d.isnan().any() else d.max().item())
    for m, mode in modes.items():
        m.training = mode
    return worst


def to_onnx(model, example):
    f = io.BytesIO()
    x = torch.cat([example, example])
    axes = {"features": {0: "batch"}, "logits": {0: "batch"}}
    torch.onnx.export(
        copy.deepcopy(model).eval(), (x,), f, input_names=["features"], output_names=["logits"],
        dynamic_axes=axes, dynamo=False,
    )
    return f.getvalue()
