"""Layers and small models, which the student's code adapts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Linear layers, among them `query` and `pre_query`: one name contains the other."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.value, self.output = (nn.Linear(width, width) for _ in range(3))
        self.pre_query, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Any:
        inner = self.query(self.pre_query(self.norm(x)))
        return x + self.output(torch.tanh(inner) * self.value(x))


def network(seed: int, width: int, depth: int) -> nn.Sequential:
    """Make a few blocks and a head, with random numbers from the seed."""
    model = nn.Sequential(nn.Linear(3, width), *(Block(width) for _ in range(depth)))
    model.add_module("head", nn.Linear(width, 2))
    fill(model, seed)
    return model


def fill(model: nn.Module, seed: int) -> None:
    """Give all parameters random numbers, in the order of their names."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 2)


def plain(module: Any, out: int, features: int) -> nn.Linear:
    """Make a base, for a layer that the test makes itself."""
    return nn.Linear(features, out)


def linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """Make a linear layer with these numbers."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer


def layer_of(module: Any, numbers: dict[str, Any], alpha: float) -> Any:
    """Make a LoRALinear with these numbers in weight, bias, A and B."""
    layer = module.LoRALinear(linear(numbers["weight"], numbers["bias"]), len(numbers["A"]), alpha)
    with torch.no_grad():
        layer.A.copy_(numbers["A"])
        layer.B.copy_(numbers["B"])
    return layer


def first_output(module: Any, weight: Tensor, bias: Tensor | None, x: Tensor) -> Any:
    """Return the output of a new layer."""
    return module.LoRALinear(linear(weight, bias), 2, 3.0)(x).detach()


def output(module: Any, numbers: dict[str, Any], alpha: float, x: Tensor) -> Any:
    """Return the output of a layer with these numbers."""
    return layer_of(module, numbers, alpha)(x).detach()


def gradients(module: Any, numbers: dict[str, Any], x: Tensor, incoming: Tensor) -> Any:
    """Return the gradients of x and of every parameter that requires one. alpha is the rank."""
    layer, x = layer_of(module, numbers, float(len(numbers["A"]))), x.requires_grad_()
    (layer(x) * incoming).sum().backward()
    named = {name: p.grad for name, p in layer.named_parameters() if p.requires_grad}
    return {**named, "x": x.grad}


def merges(module: Any, numbers: dict[str, Any], alpha: float, x: Tensor, calls: list[str]) -> Any:
    """Return the output of the layer, and the weight of its base, after each of these calls."""
    layer = layer_of(module, numbers, alpha)
    weight, seen = layer.base.weight, []
    for call in calls:
        getattr(layer, call)()
        seen.append({"output": layer(x).detach(), "weight": weight.detach().clone()})
    return seen


def adapted(module: Any, plan: dict[str, Any], x: Tensor) -> Any:
    """Return the layers that were replaced, the parameters that learn, and the output before and after."""
    model = network(plan["seed"], plan["width"], plan["depth"])
    before = model(x).detach()
    module.add_lora(model, plan["names"], 2, 4.0)
    kinds = {name: type(each).__name__ for name, each in model.named_modules()}
    return {
        "replaced": sorted(name for name, kind in kinds.items() if kind == "LoRALinear"),
        "learns": learning(model),
        "before": before,
        "after": model(x).detach(),
    }


def saved(module: Any, plan: dict[str, Any]) -> Any:
    """Return the adapter's state dict. Every parameter is filled after add_lora."""
    model = network(plan["seed"], plan["width"], plan["depth"])
    module.add_lora(model, plan["names"], 2, 4.0)
    fill(model, plan["seed"] + 1)
    state = module.lora_state_dict(model)
    learning = [name for name, tensor in state.items() if tensor.requires_grad]
    return {
        "state": {name: tensor.detach() for name, tensor in state.items()},
        "learning": learning,
    }


def refused(module: Any, plan: dict[str, Any]) -> Any:
    """Return whether add_lora raises a ValueError that names `names`, and what learns afterwards."""
    model = network(plan["seed"], plan["width"], plan["depth"])
    told = None
    try:
        module.add_lora(model, plan["names"], 2, 4.0)
    except ValueError as error:
        told = "names" in str(error)
    return {"told": told, "learns": learning(model)}


def learning(model: nn.Module) -> list[str]:
    """Return the names of the parameters that require a gradient."""
    return sorted(name for name, each in model.named_parameters() if each.requires_grad)
