"""Batches, devices and models, and moved batches in words: tensors on meta cannot be sent to the judge."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn


class Sample(NamedTuple):
    """An image and its label, or batches of them."""

    image: Any
    label: Any

    def __repr__(self) -> str:
        """Use words that another class of the same name would not use."""
        return f"a sample: {self.image}, {self.label}"


def sample(module: Any, image: Any, label: Any) -> Sample:
    """A NamedTuple."""
    return Sample(image, label)


def parameter(module: Any, x: Tensor) -> nn.Parameter:
    """A frozen Parameter with these values, so that its moved copy has no graph."""
    return nn.Parameter(x, requires_grad=False)


def device(module: Any, name: str) -> torch.device:
    """A torch.device of this name."""
    return torch.device(name)


def moved(module: Any, batch: Any, device: Any) -> str:
    """The moved batch, in words."""
    return repr(module.to_device(batch, device))


def passed_on(module: Any) -> dict[str, bool]:
    """Whether other objects, in a list beside a tensor, come back as the same objects."""
    others = {
        "None": None,
        "a large number": 10**20,
        "a string": "some words",
        "an object": object(),
        "an array": np.ones(3),
    }
    result = module.to_device([torch.ones(2), *others.values()], "meta", torch.float64)
    pairs = zip(others.items(), result[1:], strict=True)
    return {name: answer is other for (name, other), answer in pairs}


class Elsewhere(Tensor):
    """A stand-in for a tensor on the second GPU of a machine that has two."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # a stand-in
        return torch.device("cuda", 1)


class Part(nn.Module):
    """A module with attributes that are not tensors, and a property that is a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("nothing", None)
        self.register_buffer("no_buffer", None)
        self.names = ["a"]
        self.missing = None

    @property
    def middle(self) -> Tensor:
        """A tensor that is not in any attribute."""
        return torch.ones(3)


def model(module: Any, held: dict[str, str], devices: dict[str, str]) -> nn.Module:
    """A module with tensors of these dotted names and kinds, on cpu unless `devices` names another device."""
    root = Part()
    for dotted, kind in held.items():
        path, _, name = dotted.rpartition(".")
        hold(part_at(root, path), name, kind, devices.get(dotted, "cpu"))
    return root


def part_at(root: nn.Module, path: str) -> nn.Module:
    """The submodule at this path, made if it is missing."""
    owner = root
    for name in path.split(".") if path else []:
        if name not in owner._modules:
            owner.add_module(name, Part())
        owner = owner.get_submodule(name)
    return owner


def hold(owner: nn.Module, name: str, kind: str, device: str) -> None:
    """Give a module a tensor of this kind, with a gradient if it is a parameter."""
    special = {"empty": torch.ones(0), "integer": torch.ones(3, dtype=torch.int64)}
    tensor = special.get(kind, torch.ones(3))
    tensor = tensor.as_subclass(Elsewhere) if device == "cuda:1" else tensor.to(device)
    if kind in ("parameter", "frozen"):
        parameter = nn.Parameter(tensor, requires_grad=kind == "parameter")
        # Not ones_like, which takes half a second on meta to import parts of torch.
        parameter.grad = tensor.detach().clone()
        owner.register_parameter(name, parameter)
    elif kind in ("buffer", "cache"):
        owner.register_buffer(name, tensor, persistent=kind == "buffer")
    else:
        setattr(owner, name, tensor.requires_grad_(kind == "trained"))
