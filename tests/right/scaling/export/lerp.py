# right: torch.lerp of both, weights of both mixed instead of outputs, strict export
import io

import torch
from torch import nn
from torch.nn import functional as F


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
        self.positive = router.positive
        self.negative = router.negative

    def forward(self, x):
        yes = torch.gt(x.mean(), 0)
        weight = torch.where(yes, self.positive.weight, self.negative.weight)
        bias = torch.where(yes, self.positive.bias, self.negative.bias)
        return F.linear(x, weight, bias)


def _modes(model, modes=None):
    if modes is None:
        modes = [m.training for m in model.modules()]
        model.eval()
        return modes
    for m, mode in zip(model.modules(), modes):
        m.training = mode


def to_torchscript(model):
    modes = _modes(model)
    scripted = torch.jit.script(model)
    scripted.eval()
    _modes(model, modes)
    return scripted


def to_exported(model, example):
    modes = _modes(model)
    x = torch.vstack([example, example])
    try:
        return torch.export.export(model, args=(x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},), strict=True)
    finally:
        _modes(model, modes)


@torch.no_grad()
def largest_difference(model, exported, inputs):
    modes = _modes(model)
    greatest = torch.zeros(())
    try:
        for x in inputs:
            ours, theirs = model(x), exported(x)
            if ours.shape != theirs.shape:
                return float("inf")
            if ours.nelement() == 0:
                continue
            gap = torch.max(torch.abs(ours - theirs)).double()
            if torch.isnan(gap):
                return float("inf")
            greatest = torch.maximum(greatest.double(), gap)
    finally:
        _modes(model, modes)
    return greatest.item()


def to_onnx(model, example):
    modes = _modes(model)
    x = torch.vstack([example, example])
    file = io.BytesIO()
    torch.onnx.export(
        model, (x,), file, verbose=False, opset_version=17, do_constant_folding=True,
        input_names=["features"], output_names=["logits"],
        dynamic_axes={"features": {0: "batch_size"}, "logits": {0: "batch_size"}}, dynamo=False,
    )
    _modes(model, modes)
    return file.getvalue()
