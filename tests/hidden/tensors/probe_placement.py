"""Live batches, devices and models, and what became of a batch: tensors on meta do not travel."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn


class Sample(NamedTuple):
    """An image and its label, or batches of them."""

    image: Any
    label: Any


def sample(module: Any, image: Any, label: Any) -> Sample:
    """A NamedTuple."""
    return Sample(image, label)


def parameter(module: Any, x: Tensor) -> nn.Parameter:
    """A Parameter with these values."""
    return nn.Parameter(x)


def device(module: Any, name: str) -> torch.device:
    """A torch.device by its name."""
    return torch.device(name)


def moved(module: Any, batch: Any, device: Any) -> dict[str, str]:
    """What each entry of the batch is once it was moved, by its path."""
    return described(module.to_device(batch, device), "batch")


def described(value: Any, path: str) -> dict[str, str]:
    """What each entry of a batch is, by its path."""
    if isinstance(value, Tensor):
        return {path: f"{value.dtype} of shape {tuple(value.shape)} on {value.device}"}
    if not isinstance(value, (dict, list, tuple)):
        return {path: repr(value)}
    name = type(value).__name__
    if type(value) not in (dict, list, tuple, Sample):
        name = f"another {name}"
    entries = {path: name}
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in parts:
        entries |= described(part, f"{path}[{key!r}]")
    return entries


def passed_on(module: Any, names: list[str]) -> dict[str, bool]:
    """Whether these objects, in a list beside a tensor, come back as themselves."""
    objects = {
        "None": None,
        "a large number": 10**20,
        "a string": "some words",
        "an array": np.ones(3),
        "an object": object(),
    }
    batch = [torch.ones(2), *(objects[name] for name in names)]
    result = module.to_device(batch, "meta", torch.float64)
    return {name: result[i] is objects[name] for i, name in enumerate(names, start=1)}


class Elsewhere(Tensor):
    """A stand-in for a tensor on the second GPU of a machine that has two."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # a stand-in
        return torch.device("cuda", 1)


class Part(nn.Module):
    """A module with attributes that are no tensors, and a property that is one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("nothing", None)
        self.register_buffer("no_buffer", None)
        self.names = ["a"]
        self.missing = None

    @property
    def middle(self) -> Tensor:
        """A tensor that no attribute holds."""
        return torch.ones(3)


def model(module: Any, held: dict[str, str], where: dict[str, str]) -> nn.Module:
    """A module with tensors of these dotted names; how it holds each, and `where` those are that left cpu."""
    root = Part()
    for dotted, kind in held.items():
        path, _, name = dotted.rpartition(".")
        hold(part_at(root, path), name, kind, where.get(dotted, "cpu"))
    return root


def part_at(root: nn.Module, path: str) -> nn.Module:
    """The submodule at this path, made where it is missing."""
    owner = root
    for name in path.split(".") if path else []:
        if name not in owner._modules:
            owner.add_module(name, Part())
        owner = owner.get_submodule(name)
    return owner


def hold(owner: nn.Module, name: str, kind: str, place: str) -> None:
    """Give a module a tensor that is held in this way, with a gradient if it is a parameter."""
    if kind == "empty":
        tensor = torch.ones(0)
    elif kind == "integer":
        tensor = torch.ones(3, dtype=torch.int64)
    else:
        tensor = torch.ones(3)
    if place == "meta":
        tensor = tensor.to("meta")
    elif place == "cuda:1":
        tensor = tensor.as_subclass(Elsewhere)

    if kind in ("parameter", "frozen"):
        parameter = nn.Parameter(tensor, requires_grad=kind == "parameter")
        # On meta, ones_like would import half a second of torch.
        parameter.grad = tensor.detach().clone()
        owner.register_parameter(name, parameter)
    elif kind in ("buffer", "cache"):
        owner.register_buffer(name, tensor, persistent=kind == "buffer")
    elif kind == "trained":
        setattr(owner, name, tensor.requires_grad_())
    else:
        setattr(owner, name, tensor)
