# right: the new ONNX exporter, torch.cond, Dim.DYNAMIC, a frozen script, the router kept as a whole
import contextlib
import math

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram


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
    def __init__(self, router: Router) -> None:
        super().__init__()
        self.router = router

    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(
            x.mean() > 0, lambda x: self.router.positive(x), lambda x: self.router.negative(x), (x,)
        )


@contextlib.contextmanager
def evaluated(model: nn.Module):
    training = [m for m in model.modules() if m.training]
    model.eval()
    try:
        yield model
    finally:
        for m in training:
            m.training = True


def to_torchscript(model: nn.Module):
    with evaluated(model):
        return torch.jit.freeze(torch.jit.script(model))


def to_exported(model: nn.Module, example: Tensor) -> ExportedProgram:
    x = example.repeat(3, *[1] * (example.dim() - 1))
    with evaluated(model):
        return torch.export.export(model, (x,), dynamic_shapes=[{0: Dim.DYNAMIC}])


def largest_difference(model, exported, inputs) -> float:
    def difference(x):
        a, b = model(x), exported(x)
        if a.shape != b.shape:
            return math.inf
        d = torch.nan_to_num((a - b).abs(), nan=math.inf)
        return d.max().item() if d.numel() else 0.0

    with evaluated(model), torch.inference_mode():
        return max(map(difference, inputs), default=0.0)


def to_onnx(model: nn.Module, example: Tensor) -> bytes:
    x = example.repeat(2, *[1] * (example.dim() - 1))
    with evaluated(model):
        program = torch.onnx.export(
            model, (x,), input_names=["features"], output_names=["logits"], dynamo=True,
            dynamic_shapes=({0: Dim("batch", min=1)},), verbose=False,
        )
    return program.model_proto.SerializeToString()
