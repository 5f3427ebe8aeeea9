"""Batches and models that a suite describes, and what became of them: tensors on meta do not travel."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Sample(NamedTuple):
    """A NamedTuple with annotations."""

    image: Any
    label: Any


Pair = namedtuple("Pair", ["first", "second"])


def built(steps: list[Any]) -> Any:
    """The batch that these steps make: each takes the last few parts, and leaves what it made of them."""
    of_parts: dict[str, Callable[..., Any]] = {
        "list": lambda *parts: list(parts),
        "tuple": lambda *parts: parts,
        "object": object,
        "Parameter": nn.Parameter,
        "Sample": Sample,
        "Pair": Pair,
    }
    made: list[Any] = []
    for kind, data in steps:
        if kind == "is":
            made.append(data)
            continue
        count = len(data) if kind == "dict" else data
        parts = [made.pop() for _ in range(count)][::-1]
        made.append(
            dict(zip(data, parts, strict=True)) if kind == "dict" else of_parts[kind](*parts)
        )
    return made[0]


def words(value: Any, given: list[Any] | None = None) -> list[dict[str, Any]]:
    """What can be seen of a batch, entry by entry, outermost first: a flat list, however deep it is.

    With the entries that were given, also whether each is the same object, or of the same class.
    """
    entries: list[dict[str, Any]] = []

    def look(value: Any) -> None:
        was = None if given is None or len(entries) >= len(given) else given[len(entries)]
        told: dict[str, Any] = {"given": value is was, "own type": type(value) is type(was)}
        entries.append(told)
        if isinstance(value, Tensor):
            where = [str(value.dtype), str(value.device), list(value.shape)]
            told["facts"] = ["Tensor", *where]
            told["values"] = None if value.is_meta else value.detach().clone()
            return
        named = isinstance(value, tuple) and hasattr(value, "_fields")
        told["facts"] = [f"{'NamedTuple ' if named else ''}{type(value).__name__}"]
        if named or type(value) in (dict, list, tuple):
            keys = list(value) if isinstance(value, dict) else range(len(value))
            told["facts"].append([repr(key) for key in keys])
            for key in keys:
                look(value[key])

    look(value)
    return entries


def objects(value: Any) -> list[Any]:
    """Every entry of a batch, outermost first."""
    if not isinstance(value, (dict, list, tuple)):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [value, *(entry for part in parts for entry in objects(part))]


def moved(
    module: Any, steps: list[Any], device: str, dtype: str = "", live: bool = False
) -> dict[str, Any]:
    """A batch after a call, and the result; `live`: the device as a torch.device."""
    given = built(steps)
    entries = objects(given)
    place = torch.device(device) if live else device
    arguments = [getattr(torch, dtype) if dtype != "None" else None] if dtype else []
    result = module.to_device(given, place, *arguments)
    return {"after": words(given, entries), "result": words(result, entries)}


def device(module: Any, name: str) -> torch.device:
    """A torch.device by its name."""
    return torch.device(name)


class Elsewhere(Tensor):
    """A stand-in for a tensor on the second GPU of a machine that has two."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # a stand-in
        return torch.device("cuda", 1)


class Part(nn.Module):
    """A module with attributes that are no tensors, and maybe a property that is one; it is never called."""

    @property
    def middle(self) -> Any:
        """A buffer that is not persistent, where there is one."""
        return next((self._buffers[name] for name in self._non_persistent_buffers_set), None)

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("nothing", None)
        self.register_buffer("no_buffer", None)
        self.names, self.count, self.missing = ["a"], 3, None


def model(module: Any, held: dict[str, str], where: dict[str, str] | None = None) -> nn.Module:
    """A module with tensors of these dotted names, and how it holds each; `where` some of them are."""
    root = Part()
    for name, kind in held.items():
        owner: nn.Module = root
        *path, attribute = name.split(".")
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, Part())
            owner = owner._modules[part] or owner
        shape = (0,) if kind == "void" else (3,)
        dtype = torch.int64 if kind == "index" else torch.float32
        tensor = torch.ones(shape, dtype=dtype, requires_grad=kind == "trained")
        place = (where or {}).get(name, "cpu")
        if place == "meta":
            tensor = tensor.detach().to("meta").requires_grad_(kind == "trained")
        elif place != "cpu":
            tensor = tensor.as_subclass(Elsewhere)
        if kind in ("parameter", "frozen"):
            parameter = nn.Parameter(tensor, requires_grad=kind == "parameter")
            parameter.grad = torch.ones_like(parameter)
            owner.register_parameter(attribute, parameter)
        elif kind in ("buffer", "cache"):
            owner.register_buffer(attribute, tensor, persistent=kind == "buffer")
        else:
            setattr(owner, attribute, tensor)
    return root


def plain(module: Any, kind: str) -> nn.Module:
    """A module of PyTorch's, with nothing left behind."""
    return {"linear": nn.Linear(2, 3), "norm": nn.BatchNorm1d(3)}.get(kind) or nn.Sequential()
