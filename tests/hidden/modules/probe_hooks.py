"""Models that are looked into, and what passes in and after a block that captures give, raw."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

ERRORS = {kind: error("it broke") for kind, error in
          (("an exception", LookupError), ("a KeyboardInterrupt", KeyboardInterrupt))}  # fmt: skip
# Lists of this module, so that a deep copy of a model and its hooks write into the same ones.
calls, log = list[Tensor](), list[nn.Module]()


class Leaf(nn.Module):
    """A layer of one's own, without children: a function of x times a weight."""

    def __init__(self, function: Callable[..., Any], size: int = 1) -> None:
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Any:
        return self.function(x * self.weight)


class Network(nn.Module):
    """(n, 3) to (n, 2); gain runs `times` times, with a skip connection; the loss does not use side."""

    def __init__(self, state: Any, in_place: Any = False, times: int = 1, frozen: Any = ()) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=in_place))
        self.gain, self.times = Leaf(torch.sin, 4), times
        self.side, self.head = nn.Linear(4, 5), nn.Linear(4, 2)
        self.double().load_state_dict(state)
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(name not in frozen).grad = torch.ones_like(parameter)
        add_hooks(self)

    def forward(self, x: Tensor) -> Any:
        x = self.body(x)
        for _ in range(self.times):
            x = x + self.gain(x)
        self.side(x)
        return self.head(x)


class Parts(nn.Module):
    """Leaves of all kinds, called in another order than registered, some twice or never."""

    def __init__(self, kind: str = "", times: int = 2) -> None:
        super().__init__()
        # How often is nowhere to be read: a list of the calls cannot be written down beforehand.
        self.repeated: Any = lambda block, x: reduce(lambda y, _: block(y), range(times), x)
        self.head, self.unused = nn.Linear(4, 2), nn.Linear(2, 2)
        self.body = nn.Sequential(nn.Tanh(), nn.Sequential(), nn.Linear(5, 4)).eval()
        self.rows, self.pair = Leaf(lambda x: x[:1]), Leaf(lambda x: (x, x))
        self.block = nn.Sequential(nn.Sequential(nn.Linear(4, 4)))
        self.total, self.last, self.stem = Leaf(torch.sum), nn.Identity(), nn.Linear(3, 5)
        self.kind = kind
        # Its own hook gives it each row twice.
        self.register_forward_pre_hook(lambda _, given: (torch.cat([given[0], given[0]]),))
        add_hooks(self)

    def forward(self, x: Tensor) -> Any:
        calls.append(x.detach().clone())
        x = self.repeated(self.block, self.body(self.stem(x))) * 2
        self.pair(x)
        self.total(self.rows(x))
        x = self.last(self.head(x))
        if self.kind:
            raise ERRORS[self.kind]
        return x


def model(module: Any, kind: str, *options: Any, **others: Any) -> Any:
    kinds: dict[str, Any] = {"network": Network, "parts": Parts, "layer": nn.Linear}
    return kinds[kind](*options, **others)


def add_hooks(model: nn.Module) -> list[Any]:
    """Hooks of somebody; a full backward hook forbids a change of the output in place."""
    ways = ["register_forward_hook", "register_full_backward_hook"]
    del ways[1 if any(getattr(part, "inplace", False) for part in model.modules()) else 2 :]
    own = [getattr(part, way) for way in ways for part in model.modules()]
    return [register(lambda part, *_: log.append(part)) for register in own]


def hooks(model: nn.Module) -> dict[str, list[int]]:
    """The ids of the hooks of all modules and parameters of a model, and of PyTorch's global ones."""
    owners = {f"the model's {name or 'own'}": vars(part) for name, part in model.named_modules()}
    for name, parameter in model.named_parameters():
        owners[f"the parameter {name}'s"] = {"_backward_hooks": parameter._backward_hooks}
    return {
        f"{owner} {key}": [id(hook) for hook in table.values()]
        for owner, tables in {**owners, "PyTorch's": vars(nn.modules.module)}.items()
        for key, table in tables.items()
        if key.endswith("_hooks") and isinstance(table, dict) and table
    }


def facts(seen: Any) -> dict[str, Any]:
    """What a block's dict holds now (None: it is no dict), and the values that are in a graph."""
    if not isinstance(seen, dict):
        return {"values": None}
    values = {str(n): v.detach().clone() if isinstance(v, Tensor) else v for n, v in seen.items()}
    graph = [str(name) for name, value in seen.items() if getattr(value, "requires_grad", False)]
    return {"values": values, "graph": graph}


def run(model: nn.Module, x: Tensor, how: str = "", weight: Any = 0.0) -> dict[str, Any]:
    """A forward and a backward pass, with the weight of each output; how many hooks of others ran."""
    log.clear()
    model.zero_grad()
    with torch.set_grad_enabled(how != "no_grad"):
        output = model(x)
    attached, value, total = output.requires_grad, output.detach().clone(), (output * weight).sum()
    if attached and how:
        if how == "twice":  # two backward passes through one graph
            (total + output.sum()).backward(retain_graph=True)
        total.backward()
    if how == "changed":
        output.detach().zero_()
    named = {name: parameter.grad for name, parameter in model.named_parameters()}
    own = {name: grad.detach() for name, grad in named.items() if grad is not None}
    return {"output": value, "gradients": own, "attached": attached, "ran": len(log)}


def block(
    module: Any, name: str, model: Any, names: Any, steps: Any, nested: bool = False
) -> dict[str, Any]:
    """Passes in a block (of the first one, in a `nested` one), and the last one again after it."""
    before, inside, inner, capture = hooks(model), list[Any](), None, getattr(module, name)
    manager = capture(model, names)
    made = hooks(model)
    with manager as seen:
        own, first, around = add_hooks(model), facts(seen), hooks(model)
        first["kept"] = all(getattr(p.grad, "min", int)() == 1 for p in model.parameters())
        for step in steps:
            with nullcontext(inner) if inside or not nested else capture(model, names) as inner:
                passed = run(model, *step)
            passed |= {"seen": facts(seen), "inner": facts(inner)}
            inside.append({**passed, "hooks": [around, hooks(model)]})
    last, (x, *others) = facts(seen), steps[-1]
    outside = {**run(model, x + 1, *others), "seen": facts(seen)}
    for handle in own:
        handle.remove()
    report = {"first": first, "inside": inside, "last": last, "outside": outside, "made": made}
    return {**report, "hooks": [before, hooks(model)]}


def left(module: Any, name: str, model: Any, names: Any, x: Tensor, kind: str = "") -> Any:
    """What a call or a block gives or raises (of its own, a ValueError), and the hooks around it."""
    before, modes = hooks(model), [part.training for part in model.modules()]
    raised, text, value = False, None, None
    calls.clear()
    try:
        if name == "trace_shapes":
            value = module.trace_shapes(model, x)
        else:
            with getattr(module, name)(model, names):
                if kind:
                    model(x).sum().backward()
                    raise ERRORS[kind]
    except BaseException as error:
        raised, text = error is ERRORS.get(kind), str(error)[:300]
        if not raised and (kind or name == "trace_shapes" or not isinstance(error, ValueError)):
            raise
    if isinstance(value, list):  # a named tuple is a tuple
        value = [(*pair,) if isinstance(pair, tuple) else pair for pair in value]
    report = {"value": value, "calls": [*calls], "raised": raised, "text": text}
    report["modes"] = modes == [part.training for part in model.modules()]
    return {**report, "hooks": [before, hooks(model)]}
