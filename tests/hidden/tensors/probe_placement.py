"""Live batches and modules, described in words: tensors on meta do not travel."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Sample(NamedTuple):
    """A NamedTuple with annotations."""

    image: Any
    label: Any


Pair = namedtuple("Pair", ["first", "second"])
DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "uint8", "bool", "complex64"]


def batch(kind: str) -> Any:
    """A batch of this kind, new each time."""
    x, y = torch.linspace(-2, 3, 6).reshape(2, 3), torch.arange(4)
    if kind == "deep":
        made: Any = [x, y]
        for level in range(60):
            made = {"inner": made} if level % 3 == 0 else [made] if level % 3 == 1 else (made,)
        return made
    batches: dict[str, Any] = {
        "dict": {"x": x, "label": y, 3: x[0], "a": x.double()},
        "list": [x, y, x.half(), nn.Parameter(x.clone())],
        "tuple": (x, y),
        "one": (x,),
        "nested": {
            "views": [(x, y), [x[0], {"z": y}]],
            "pair": (x, {"w": [x]}),
            "id": 7,
            "no": None,
        },
        "NamedTuple": Sample(x, y),
        "namedtuples": [Pair(x, Sample([x], y)), {"p": Pair((x,), None)}],
        "dtypes": {d: torch.tensor([0.0, 1, 2.5]).to(getattr(torch, d)) for d in DTYPES},
        "others": [None, 3, 2.5, "text", True, b"raw", object(), x],
        "empty": {"list": [], "dict": {}, "tuple": (), "pair": Pair((), []), "x": torch.ones(0, 2)},
    }
    batches |= {"tensor": x, "labels": y, "array": x.numpy()}
    batches |= {"None": None, "text": "text", "empty dict": {}, "empty list": [], "empty tuple": ()}
    return batches[kind]


def words(value: Any, path: str = "batch") -> list[dict[str, Any]]:
    """What can be seen of a batch, entry by entry, outermost first: a flat list, however deep it is."""
    facts: dict[str, Any] = {"path": path, "kind": type(value).__name__, "id": id(value)}
    if isinstance(value, Tensor):
        kept = None if value.is_meta else value.detach().clone()
        seen = {"dtype": str(value.dtype), "device": str(value.device), "shape": list(value.shape)}
        return [{**facts, **seen, "kind": "Tensor", "values": kept}]
    names = getattr(value, "_fields", None) if isinstance(value, tuple) else None
    if names is None and type(value) not in (dict, list, tuple):
        return [facts]
    if names is not None:
        facts["kind"] = f"NamedTuple {type(value).__name__}"
    keys = value if isinstance(value, dict) else range(len(value))
    inner = [words(value[key], f"{path}[{key!r}]") for key in keys]
    own = {**facts, "type": id(type(value)), "keys": [repr(key) for key in keys]}
    return [own, *(entry for entries in inner for entry in entries)]


def moved(module: Any, kind: str, device: str, dtype: str = "", live: bool = False) -> Any:
    """A batch before and after a call, and the result; `live`: the device as a torch.device."""
    given = batch(kind)
    before = words(given)
    place = torch.device(device) if live else device
    arguments = [getattr(torch, dtype) if dtype != "None" else None] if dtype else []
    result = module.to_device(given, place, *arguments)
    return {"before": before, "after": words(given), "result": words(result)}


def device(module: Any, name: str) -> torch.device:
    """A torch.device by its name."""
    return torch.device(name)


class Elsewhere(Tensor):
    """A stand-in for a tensor on the second GPU of a machine that has two."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # a stand-in
        return torch.device("cuda", 1)


class Encoder(nn.Module):
    """Parameters and a buffer; if simple, a plain tensor, too; if full, tensors of every other kind."""

    middle = property(lambda self: getattr(self, "cache", None))

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.register_buffer("mean", torch.ones(2))
        if kind != "registered":
            self.table = torch.ones(3)
        if kind == "full":
            self.register_buffer("cache", torch.ones(2), persistent=False)
            self.index = torch.arange(3)
            self._hidden = torch.ones(3)


class Model(nn.Module):
    """Encoders inside, and a parameter at the root; if full, plain tensors there, too."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.encoder = Encoder(kind)
        self.layers = nn.Sequential(nn.ReLU(), Encoder(kind))
        if kind == "full":
            self.scale, self.void = torch.tensor(2.0), torch.ones(0)
            self.trained = torch.ones(2, requires_grad=True)
            self.register_parameter("bias", None)
            self.register_buffer("nothing", None)
            self.names, self.count, self.missing = ["a"], 3, None


def model(
    module: Any, kind: str, on_meta: list[str] | None = None, gpu: list[str] | None = None
) -> nn.Module:
    """A Model of this kind whose tensors of these names are on meta, and on a second GPU."""
    made = Model(kind)
    for name in [*(on_meta or []), *(gpu or [])]:
        path, _, attribute = name.rpartition(".")
        owner = made.get_submodule(path)
        old = getattr(owner, attribute)
        new = old.detach().to("meta") if name in (on_meta or []) else old.as_subclass(Elsewhere)
        new = nn.Parameter(new, old.requires_grad) if isinstance(old, nn.Parameter) else new
        setattr(owner, attribute, new)
    for parameter in made.parameters():
        parameter.grad = torch.ones_like(parameter)
    return made


def plain(module: Any, kind: str) -> nn.Module:
    """A module of PyTorch's, with nothing left behind, or one that holds a plain table alone."""
    made = {"linear": nn.Linear(2, 3), "norm": nn.BatchNorm1d(3)}.get(kind) or nn.Sequential()
    if kind == "bare":
        made.table = torch.ones(2)
    return made
