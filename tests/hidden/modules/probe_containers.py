"""Blocks that keep what they see, models that hide layers, and what the containers hold."""

from __future__ import annotations

import collections
import contextlib
from typing import Any

import torch
from torch import Tensor, nn

Pair = collections.namedtuple("Pair", "first second")
Own = type("Own", (list,), {})


class Block(nn.Module):
    """tanh(sin(x) * weight): autograd keeps the input and the output; so does the block itself."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.seen: list[Any] = []

    def forward(self, x: Tensor) -> Tensor:
        output = torch.tanh(torch.sin(x) * self.weight)
        self.seen += [(tensor.detach(), tensor.detach().clone()) for tensor in (x, output)]
        return output


def block(module: Any, weight: Tensor) -> Block:
    return Block(weight)


def once(module: Any, weights: list[Tensor]) -> Any:
    """A generator of new blocks."""
    return (Block(weight) for weight in weights)


def _kinds(value: Any) -> str:
    return " ".join(kind.__name__ for kind in type(value).__mro__)


def held(module: Any, name: str, attribute: str, argument: Any) -> dict[str, Any]:
    """What an attribute of a new model is and holds: types, objects, and the weights of blocks."""
    own = getattr(getattr(module, name)(argument), attribute, None)
    items = list(own) if isinstance(own, (list, nn.ModuleList, nn.Sequential)) else []
    weights = [item.weight.detach() if isinstance(item, Block) else None for item in items]
    kinds = [_kinds(item) for item in items]
    return {"kinds": _kinds(own), "items": kinds, "weights": weights}


def follows(module: Any, name: str, argument: Any, x: Tensor) -> dict[str, Any]:
    """What becomes of a model by double(), eval() and to("meta")."""
    model = getattr(module, name)(argument).double().eval()
    output = model(x.double()).detach()
    training = [part.training for part in model.modules()]
    parameters = list(model.to("meta").parameters())
    kinds = [[str(p.dtype), p.device.type] for p in parameters]
    return {"output": output, "training": any(training), "parameters": kinds}


def run(module: Any, stack: nn.Module, x: Tensor, skip: Any = None, kind: str = "") -> Any:
    """A call of a stack, with `skip` as a container of this kind, or without it."""
    kinds: dict[str, Any] = {"set": set, "dict": dict.fromkeys, "frozenset": frozenset}
    return stack(x) if skip is None else stack(x, skip=kinds.get(kind, lambda v: v)(skip))


def outputs(module: Any, stack: Any, x: Tensor, skip: Any = None, kind: str = "") -> list[Tensor]:
    """What a stack gives in training and in evaluation mode, after a call with another `skip`."""
    run(module, stack, x.clone(), skip and [0])
    return [run(module, stack.train(on), x.clone(), skip, kind) for on in (True, False)]


def calls(module: Any, weights: list[Tensor], x: Tensor, skip: list[int]) -> dict[str, Any]:
    """Which blocks a forward pass calls, which of their hooks run, and what became of what they keep."""
    blocks = [Block(weight) for weight in weights]
    hooked: list[int] = []
    for i, one in enumerate(blocks):
        one.register_forward_hook(lambda *_, i=i: hooked.append(i))
    stack = module.ResidualStack(blocks)
    with contextlib.suppress(ValueError), torch.no_grad():
        stack(x, skip)
    seen = [one.seen for one in blocks]
    called = [len(kept) // 2 for kept in seen]
    return {"called": called, "hooked": hooked, "seen": seen, "skip": skip}


def model(module: Any, attributes: list[str], where: str = "") -> nn.Module:
    """A model whose submodule `where` has these attributes."""
    one, weight, named = nn.Linear(2, 2), nn.Parameter(torch.ones(2)), collections.OrderedDict
    relu, frozen = nn.ReLU(), nn.Parameter(torch.ones(2), requires_grad=False)
    values: dict[str, Any] = {"a_list": [one], "a_tuple": (relu,), "a_dict": {"first": one, 2: one}}
    values |= {"a_list_of_Parameters": [weight], "a_dict_of_frozen_Parameters": {"first": frozen}}
    values |= {"an_OrderedDict": named(first=one), "a_subclass_of_list": Own([relu])}
    values |= {"a_named_tuple": Pair(one, one), "a_list_with_a_module_last": [None, 3, one]}
    values |= {"a_list_of_tensors": [torch.ones(2).requires_grad_()], "a_list_of_numbers": [1, 2]}
    values |= {"a_dict_of_names": {"one": "one"}}
    values |= {"a_list_of_classes": [nn.Linear], "_an_underscore": [one], "an_empty_list": []}
    values |= {"an_nn_ModuleList": nn.ModuleList([one]), "an_nn_Sequential": nn.Sequential(one)}
    values |= {"an_nn_ModuleDict": nn.ModuleDict({"first": one}), "an_nn_LSTM": nn.LSTM(2, 2)}
    values |= {"an_nn_ParameterList": nn.ParameterList([weight])}
    inner = nn.ModuleList([nn.Linear(2, 2), nn.Module()])
    made: nn.Module = nn.Sequential(named(encoder=nn.Module(), decoder=inner))
    for name in attributes:
        setattr(made.get_submodule(where), name, values[name])
    return made


def sharing(module: Any) -> nn.Module:
    """A model whose encoder has a list of the registered decoder, which has a list of its own."""
    encoder, decoder = nn.Module(), nn.Module()
    setattr(encoder, "parts", [decoder])  # noqa: B010 (mypy knows no such attribute)
    setattr(decoder, "layers", [nn.Linear(2, 2)])  # noqa: B010
    return nn.ModuleDict({"encoder": encoder, "decoder": decoder})
