"""A router with small weights, and models that are compared."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def router(module: Any) -> Any:
    """A router that doubles a batch whose mean is above 0, and negates others."""
    router = module.Router(1, 1)
    with torch.no_grad():
        for layer, factor in ((router.positive, 2.0), (router.negative, -1.0)):
            layer.weight.fill_(factor)
            layer.bias.zero_()
    return router


def outputs(module: Any, how: str, xs: list[Tensor]) -> list[Any]:
    """The output for each x of a model that was made from the router, or from a dropout in train mode."""
    if how == "BranchFreeRouter":
        given = router(module)
        model = module.BranchFreeRouter(given)
        if model is given:
            return ["the router itself"] * len(xs)
    elif how == "to_torchscript":
        model = module.to_torchscript(router(module))
        if not isinstance(model, torch.jit.ScriptModule):
            return [f"{type(model).__name__}, which is not a ScriptModule"] * len(xs)
    else:
        model = module.to_exported(nn.Sequential(nn.Dropout(0.5)), torch.ones(1, 1)).module()
    return [model(x).detach() for x in xs]


def difference(module: Any, x: Tensor, y: Tensor) -> Any:
    return module.largest_difference(nn.Identity(), lambda x: y, [x])


def onnx_inputs(module: Any) -> list[Any]:
    """The names of input and output, and whether their batch sizes are fixed."""
    import onnx

    data = module.to_onnx(nn.Sequential(nn.Linear(3, 2)), torch.ones(1, 3))
    graph = onnx.load_from_string(data).graph
    dims = [one.type.tensor_type.shape.dim[0] for one in (graph.input[0], graph.output[0])]
    return [graph.input[0].name, graph.output[0].name, *(one.HasField("dim_value") for one in dims)]
