"""Reports on a layer that is trained, saved, copied and moved, and modules that hold tensors in every way."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn


def tensors_of(layer: nn.Module) -> dict[str, Tensor]:
    """All tensors of a layer, plain attributes included."""
    plain = {name: value for name, value in vars(layer).items() if isinstance(value, Tensor)}
    return {**dict(layer.named_parameters()), **dict(layer.named_buffers()), **plain}


def kinds_of(layer: nn.Module) -> dict[str, str]:
    """How the layer holds each of its tensors."""
    kinds = dict.fromkeys(tensors_of(layer), "plain attribute")
    kinds |= {name: "parameter" for name, _ in layer.named_parameters()}
    saved = layer.state_dict()
    for name, _ in layer.named_buffers():
        kinds[name] = "buffer" if name in saved else "non-persistent buffer"
    return kinds


def values_of(layer: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors_of(layer).items()}


def places_of(layer: nn.Module) -> dict[str, dict[str, Any]]:
    """Device, dtype and shape of each tensor; on the device meta, tensors have no values."""
    return {
        name: {
            "device": str(tensor.device),
            "dtype": str(tensor.dtype),
            "shape": list(tensor.shape),
        }
        for name, tensor in tensors_of(layer).items()
    }


def new(module: Any, features: int) -> dict[str, Any]:
    """The tensors of a new layer, and the names of those that are learned."""
    layer = module.RunningCenter(features)
    learned = [name for name, tensor in tensors_of(layer).items() if tensor.requires_grad]
    return {"values": values_of(layer), "learned": learned}


def held(module: Any, x: Tensor) -> dict[str, dict[str, str]]:
    """How a layer holds its tensors, before a batch and after it."""
    layer = module.RunningCenter(x.shape[-1])
    before = kinds_of(layer)
    layer(x)
    return {"before": before, "after": kinds_of(layer)}


def fill(layer: nn.Module, state: dict[str, Tensor]) -> None:
    """Write these values into the layer's tensors of the same names."""
    for name, tensor in tensors_of(layer).items():
        if name in state:
            tensor.data.copy_(state[name])


def kept(module: Any, state: dict[str, Tensor], slope: float) -> dict[str, Tensor]:
    """Save this state from one layer, load it into another, make a step of SGD, and report the tensors."""
    features = len(state["scale"])
    first, second = (module.RunningCenter(features).double() for _ in range(2))
    fill(first, state)
    second.load_state_dict(first.state_dict())
    for parameter in second.parameters():
        parameter.grad = torch.full_like(parameter, slope)
    torch.optim.SGD(second.parameters(), lr=1.0).step()
    return values_of(second)


def trained(module: Any, batches: list[Tensor]) -> dict[str, list[Any]]:
    """A layer's tensors and results after each batch, and which of the tensors were in a graph."""
    layer = module.RunningCenter(batches[0].shape[-1])
    values, results, graph = [], [], []
    for x in batches:
        results.append(layer(x.requires_grad_()).detach())
        values.append(values_of(layer))
        graph += [n for n, t in tensors_of(layer).items() if t.requires_grad and n != "scale"]
    return {"values": values, "results": results, "graph": graph}


def resumed(module: Any, batches: list[Tensor]) -> dict[str, Any]:
    """Train a layer on all batches but the last, load its state into another, and go on with both."""
    first, second = (module.RunningCenter(batches[0].shape[-1]) for _ in range(2))
    for x in batches[:-1]:
        first(x)
    second.load_state_dict(first.state_dict())
    return both_go_on(first, second, batches[-1])


def copied(module: Any, batches: list[Tensor]) -> dict[str, Any]:
    """Train a layer on all batches but the last, and go on with it and with a deep copy."""
    first = module.RunningCenter(batches[0].shape[-1])
    for x in batches[:-1]:
        first(x)
    return both_go_on(first, copy.deepcopy(first), batches[-1])


def both_go_on(first: nn.Module, second: nn.Module, x: Tensor) -> dict[str, dict[str, bool]]:
    """Give both layers this batch, the second one first, and report on each tensor of the first layer.

    "goes on" tells whether both layers end with the same values. "stays" tells whether the second layer's pass
    left the first layer alone.
    """
    before = values_of(first)
    second(x)
    meanwhile = values_of(first)
    first(x)
    wanted, own = values_of(first), values_of(second)
    return {
        name: {
            "goes on": name in own and bool(torch.allclose(own[name], wanted[name], 1e-5, 1e-5)),
            "stays": bool(meanwhile[name].equal(before[name])),
        }
        for name in wanted
    }


def evaluated(module: Any, state: dict[str, Tensor], x: Tensor) -> Tensor:
    """The result of a layer with these values, in evaluation mode."""
    layer = module.RunningCenter(x.shape[-1]).eval()
    fill(layer, state)
    result: Tensor = layer(x).detach()
    return result


def doubled(module: Any, x: Tensor, scale: Tensor) -> dict[str, Any]:
    """The places of a layer's tensors after double() and a batch in float64, and its scale, set before it."""
    layer = module.RunningCenter(x.shape[-1]).double()
    fill(layer, {"scale": scale})
    layer(x.double())
    return {"places": places_of(layer), "scale": layer.scale.detach()}


def moved(module: Any, x: Tensor) -> dict[str, dict[str, Any]]:
    """The places of a layer's tensors after a batch and to("meta")."""
    layer = module.RunningCenter(x.shape[-1])
    layer(x)
    return places_of(layer.to("meta"))


def holding(module: Any, parts: dict[str, dict[str, str]]) -> nn.Module:
    """A module with a submodule for each dotted path, which holds tensors of these names in these ways."""
    outer = nn.Module()
    for path, tensors in parts.items():
        part = outer
        for name in path.split(".") if path else []:
            part.add_module(name, nn.Module())
            part = part.get_submodule(name)
        for name, how in tensors.items():
            hold(part, name, how)
    return outer


def hold(part: nn.Module, name: str, how: str) -> None:
    match how:
        case "parameter":
            part.register_parameter(name, nn.Parameter(torch.ones(2)))
        case "frozen parameter":
            part.register_parameter(name, nn.Parameter(torch.ones(2), requires_grad=False))
        case "buffer":
            part.register_buffer(name, torch.ones(2))
        case "non-persistent buffer":
            part.register_buffer(name, torch.ones(2), persistent=False)
        case "tensor":
            setattr(part, name, torch.ones(2))
        case "tensor that requires grad":
            setattr(part, name, torch.ones(2, requires_grad=True))
        case "integer tensor":
            setattr(part, name, torch.tensor(7))
        case "list of tensors":
            setattr(part, name, [torch.ones(2)])
