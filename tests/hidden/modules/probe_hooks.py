"""Models that are looked into, and what passes in and after a block that captures give, raw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

ERRORS = {kind: error("it broke") for kind, error in
          (("an exception", LookupError), ("a KeyboardInterrupt", KeyboardInterrupt))}  # fmt: skip
# Lists of this module, so that a deep copy of a model and its hooks write into the same ones.
calls: list[Tensor] = []
log: list[nn.Module] = []


class Leaf(nn.Module):
    """A layer of one's own, without children: a function of x, or of x and a weight."""

    def __init__(self, function: Callable[..., Any], *weights: Tensor) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(weights[0].clone()) if weights else None

    def forward(self, x: Tensor) -> Any:
        return self.function(x) if self.weight is None else self.function(x * self.weight)


class Network(nn.Module):
    """(n, 3) to (n, 2); gain runs `times` times, with a skip connection; the loss does not use side."""

    def __init__(self, state: dict[str, Tensor], in_place: bool, times: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=in_place))
        self.gain, self.times = Leaf(torch.sin, state["gain.weight"]), times
        self.side, self.head = nn.Linear(4, 5), nn.Linear(4, 2)
        self.double().load_state_dict(state)

    def forward(self, x: Tensor) -> Any:
        x = self.body(x)
        for _ in range(self.times):
            x = x + self.gain(x)
        self.side(x)
        return self.head(x)


def network(
    module: Any, state: Any, in_place: bool = False, times: int = 1, frozen: tuple[str, ...] = ()
) -> Network:
    """A Network with hooks of somebody, some parameters of it frozen."""
    made = Network(state, in_place, times)
    for name in frozen:
        made.get_parameter(name).requires_grad_(False)
    add_hooks(made, backward=not in_place)
    return made


class Parts(nn.Module):
    """Leaves of all kinds, called in another order than registered, some twice or never."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.head, self.unused = nn.Linear(4, 2), nn.Linear(2, 2)
        self.body = nn.Sequential(nn.Tanh(), nn.Sequential(), nn.Linear(5, 4)).eval()
        self.rows, self.pair = Leaf(lambda x: x[:1]), Leaf(lambda x: (x, x))
        self.block = nn.Sequential(nn.Sequential(nn.Linear(4, 4)))
        self.total, self.last, self.stem = Leaf(torch.sum), nn.Identity(), nn.Linear(3, 5)
        self.kind = kind

    def forward(self, x: Tensor) -> Any:
        calls.append(x.detach().clone())
        x = self.block(self.block(self.body(self.stem(x)))) * 2
        self.pair(x)
        self.total(self.rows(x))
        x = self.last(self.head(x))
        if self.kind:
            raise ERRORS[self.kind]
        return x


def parts(module: Any, kind: str = "") -> nn.Module:
    """A Parts whose own hook gives it each row twice; it may raise an error."""
    made = Parts(kind)
    made.register_forward_pre_hook(lambda _, given: (torch.cat([given[0], given[0]]),))
    add_hooks(made)
    return made


def layer(module: Any) -> nn.Module:
    return nn.Linear(3, 4)


def add_hooks(model: nn.Module, backward: bool = True) -> list[Any]:
    ways = ["register_forward_hook", "register_full_backward_hook"][: 1 + backward]
    own = [getattr(part, way) for way in ways for part in model.modules()]
    return [register(lambda part, *_: log.append(part)) for register in own]


def hooks(model: nn.Module) -> dict[str, list[int]]:
    """The ids of the hooks of all modules and parameters of a model, and of PyTorch's global ones."""
    owners = {f"the model's {name or 'own'}": vars(part) for name, part in model.named_modules()}
    owners["PyTorch's"] = vars(torch.nn.modules.module)
    for name, parameter in model.named_parameters():
        owners[f"the parameter {name}'s"] = {"_backward_hooks": parameter._backward_hooks}
    return {
        f"{owner} {key}": [id(hook) for hook in table.values()]
        for owner, tables in owners.items()
        for key, table in tables.items()
        if key.endswith("_hooks") and isinstance(table, dict) and table
    }


def facts(seen: Any) -> dict[str, Any]:
    """What a block's dict holds now, and the names of the values that are in a graph."""
    items = seen.items() if isinstance(seen, dict) else ()
    values = {str(n): v.detach().clone() if isinstance(v, Tensor) else v for n, v in items}
    graph = [str(name) for name, value in items if getattr(value, "requires_grad", False)]
    return {"dict": isinstance(seen, dict), "values": values, "graph": graph}


def run(model: nn.Module, x: Tensor, how: str = "forward", weight: Any = 0.0) -> dict[str, Any]:
    """A forward and a backward pass, with the weight of each output; how many hooks of others ran."""
    log.clear()
    model.zero_grad()
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients: Any = ()
    with torch.set_grad_enabled(how != "no_grad"):
        output = model(x)
    attached, value, total = output.requires_grad, output.detach().clone(), (output * weight).sum()
    if attached and how == "grad":
        options: Any = {"create_graph": True, "allow_unused": True}
        gradients = torch.autograd.grad(total, list(named.values()), **options)
    elif attached and how in ("backward", "twice"):
        if how == "twice":  # two backward passes through one graph
            (output * (weight + 1)).sum().backward(retain_graph=True)
        total.backward()
        gradients = [parameter.grad for parameter in named.values()]
    if how == "changed":
        output.detach().zero_()
    own = {n: g.detach() for n, g in zip(named, gradients, strict=False) if g is not None}
    return {"output": value, "gradients": own, "attached": attached, "ran": len(log)}


def block(module: Any, name: str, model: Any, names: list[str], steps: list[Any]) -> dict[str, Any]:
    """Passes in a block, in which hooks of others come, and the last one again after it."""
    before = hooks(model)
    manager = getattr(module, name)(model, names)
    made = hooks(model)
    with manager as seen:
        late, first = add_hooks(model, backward=not model.body[1].inplace), facts(seen)
        inside = [{**run(model, *step), "seen": facts(seen)} for step in steps]
    last, (x, *others) = facts(seen), steps[-1]
    outside = {**run(model, x + 1, *others), "seen": facts(seen)}
    for handle in late:
        handle.remove()
    report = {"first": first, "inside": inside, "last": last, "outside": outside, "made": made}
    return {**report, "hooks": [before, hooks(model)]}


def nested(module: Any, name: str, model: Any, names: list[str], steps: list[Any]) -> Any:
    """A block within a block, a pass in both and one in the outer one: what the dicts hold then."""
    before, seen = hooks(model), []
    with getattr(module, name)(model, names) as first:
        around = hooks(model)
        with getattr(module, name)(model, names) as second:
            run(model, *steps[0])
        left = hooks(model)
        seen += [facts(first), facts(second)]
        run(model, *steps[1])
        seen += [facts(first), facts(second)]
    return {"seen": seen, "hooks": [[around, left], [before, hooks(model)]]}


def left(module: Any, name: str, model: Any, names: Any, x: Tensor, kind: str = "") -> Any:
    """The hooks before and after an error of the model or the block, or a ValueError about a name."""
    before, raised, text = hooks(model), False, None
    try:
        if name == "trace_shapes":
            module.trace_shapes(model, x)
        else:
            with getattr(module, name)(model, names):
                if kind:
                    model(x).sum().backward()
                    raise ERRORS[kind]
    except BaseException as error:
        raised, text = error is ERRORS.get(kind), str(error)[:300]
        if not raised and (kind or not isinstance(error, ValueError)):
            raise
    return {"raised": raised, "text": text, "hooks": [before, hooks(model)]}


def traced(module: Any, model: Any, x: Tensor) -> dict[str, Any]:
    """On what trace_shapes calls the model, and the hooks before and after; one comes meanwhile."""
    late: list[Any] = []

    def register(*_: Any) -> None:
        late.extend(() if late else add_hooks(model.stem))

    model.last.register_forward_pre_hook(register)
    before = hooks(model)
    calls.clear()
    tuples = all(isinstance(shape, tuple) for _, shape in module.trace_shapes(model, x))
    log.clear()
    model.stem(x)
    for handle in late:
        handle.remove()
    report = {"calls": list(calls), "tuples": tuples, "ran": len(log)}
    return {**report, "hooks": [before, hooks(model)]}
