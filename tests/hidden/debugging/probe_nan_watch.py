"""Models of which some part spoils the values, and what the student's functions make of them, raw."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

NAN, INF = float("nan"), float("inf")


class Pair(NamedTuple):
    """A named tuple, as a module may return one."""

    one: Any
    two: Any


class OddError(LookupError, RuntimeError, ValueError):
    """An error of several types, which an `except` for any of them catches."""


ERRORS: dict[str, Exception] = {"odd": OddError("it broke"), "lookup": LookupError("it broke")}
# What a module does to a tensor (3, 4).
KINDS: dict[str, Callable[[Any], Any]] = {
    "same": lambda x: x * 1,
    "nan": lambda x: x.index_fill(0, torch.tensor(1), NAN),
    "inf": lambda x: x.index_fill(0, torch.tensor(2), -INF),
    "large": lambda x: torch.full_like(x, torch.finfo(x.dtype).max),
    # In place, so that what came before it is finite afterwards.
    "cover": lambda x: x.nan_to_num_(0.0, 0.0, 0.0),
    # Containers in which every tensor is finite, and two that hold an inf or a NaN.
    "others": lambda x: {"x": x, "n": torch.tensor([7]), "b": x > 0, "e": x[:0], "o": [None, NAN]},
    "pair": lambda x: [x, Pair(None, x[:1])],
    "nested": lambda x: {"x": x, "deep": [None, (x, OrderedDict(last=x / 0))]},
    "listed": lambda x: [x, Pair(None, x[:1] * NAN)],
    # The tensor out of any of these containers.
    "unpack": lambda x: x["x"] if isinstance(x, dict) else x[0],
}
# The kind and the mode of each Part that ran since `first` began, in order.
ran: list[Any] = []
# Where each backward pass of a Network spoils a gradient; no attribute of the model says it.
places: list[str] = []
# The layers of a Network, in the order in which they run; the last one does not.
STEM, CORE, HEAD, UNUSED = range(4)


class Part(nn.Module):
    """Calls its parts in turn, and then does what its kind says.

    It has a parameter of NaN that it does not read; no attribute says which kind it is.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()

        def work(training: bool, x: Any) -> Any:
            ran.append({"kind": kind, "training": training})
            if kind in ERRORS:
                raise ERRORS[kind]
            return KINDS[kind](x)

        self.work = work
        self.unread = nn.Parameter(torch.tensor(NAN))
        self.unread.grad = torch.ones(())

    def forward(self, x: Any, *others: Any) -> Any:
        for part in self.children():
            x = part(x)
        return self.work(self.training, sum(others, x) if others else x)


def build(module: Any, kinds: dict[str, str], names: dict[str, str], training: bool) -> nn.Module:
    """A model of two boxes, a and b, with two parts each, by the names of a, a.a, and so on.

    All of its parts are in this mode; the model itself, "", is in the other one.
    """
    parts = {place: Part(kinds.get(place, "same")) for place in names}
    model = parts.pop("")
    for place, part in parts.items():
        box = parts.get(place.rpartition(".")[0], model)
        box.add_module(names[place].rpartition(".")[2], part)
    model.train(training)
    model.training = not training
    return model


def hooks(model: nn.Module) -> dict[str, Any]:
    """The modes, and how many hooks are on modules, on parameters, and among PyTorch's global ones."""
    on_modules = [tables_of(part) for part in model.modules()]
    on_parameters = []
    for parameter in model.parameters():
        on_parameters.append(parameter._backward_hooks or {})
        on_parameters.append(getattr(parameter, "_post_accumulate_grad_hooks", None) or {})
    return {
        "modes": [torch.is_grad_enabled(), *(part.training for part in model.modules())],
        "the model's modules": sum(len(table) for tables in on_modules for table in tables),
        "the model's parameters": sum(len(table) for table in on_parameters),
        "PyTorch itself": sum(len(table) for table in tables_of(torch.nn.modules.module)),
    }


def tables_of(owner: Any) -> list[Any]:
    """The tables of hooks that a module, or PyTorch for all of them, holds."""
    tables = [table for name, table in vars(owner).items() if name.endswith("_hooks")]
    return [table for table in tables if isinstance(table, dict)]


def first(module: Any, model: nn.Module, *inputs: Tensor) -> dict[str, Any]:
    """What first_non_finite gives, which parts ran, and the hooks before and after, of others too."""
    for part in model.modules():
        part.register_forward_hook(lambda *_: None)
    before = hooks(model)
    value, error = None, None
    ran.clear()
    try:
        value = module.first_non_finite(model, *inputs)
    except LookupError as caught:
        error = caught
    return {
        "value": value,
        "own": error in ERRORS.values(),
        "ran": list(ran),
        "hooks before": before,
        "hooks after": hooks(model),
    }


class Network(nn.Module):
    """Runs three layers of these names, of which some weights are frozen; the root's gradient is a NaN at 0."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        stem, core = nn.Linear(4, 3), nn.Linear(3, 3)
        head, unused = nn.Linear(3, 2), nn.Linear(2, 2)
        core.weight.requires_grad = False
        head.weight.requires_grad = False
        self.names = names
        # In another order than they run in.
        for place, layer in ((STEM, stem), (HEAD, head), (CORE, core), (UNUSED, unused)):
            self.add_module(names[place], layer)

    def layer(self, place: int) -> Any:
        return self.get_submodule(self.names[place])

    def forward(self, x: Tensor) -> Tensor:
        where = places[-1]
        x = torch.tanh(self.layer(STEM)(x))
        if where == "middle":
            x = (x * 0).abs().sqrt()
        x = self.layer(CORE)(x)
        # The gradient at the bias of the head is -inf, or numbers whose sum overflows.
        if where == "inf":
            x = self.layer(HEAD)(x.detach())
            return x * -1e20 * 1e20
        if where == "large":
            x = self.layer(HEAD)(x.detach())
            return x * 2e38
        x = self.layer(HEAD)(x)
        if where == "end":
            x = x * torch.tensor([0.0, 1.0])
        return x.abs().sqrt()


def network(names: list[str]) -> Network:
    """A network with the same weights at each call, a gradient from before, and a hook of its own."""
    torch.manual_seed(0)
    model = Network(names).eval()
    model.layer(UNUSED).bias.grad = torch.ones(2)
    model.layer(HEAD).bias.register_hook(lambda _: None)
    return model


def gradients_of(model: nn.Module) -> dict[str, Tensor]:
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def unwatched(module: Any, names: list[str], where: list[str], x: Tensor) -> dict[str, Tensor]:
    """The gradients after these backward passes, without a block."""
    model = network(names)
    for place in where:
        places.append(place)
        model(x).sum().backward()
    return gradients_of(model)


def watched(
    module: Any, names: list[str], where: list[str], x: Tensor, error: str = ""
) -> dict[str, Any]:
    """Backward passes in a block, and an error at its end, if one is named: what came, and the hooks left.

    "done" is how many passes raised nothing, None where the block does not begin.
    """
    model = network(names)
    before = hooks(model)
    done, came = None, None
    try:
        with module.watch_gradients(model):
            done = 0
            for place in where:
                places.append(place)
                model(x).sum().backward()
                done += 1
            if error:
                raise ERRORS[error]
    except NotImplementedError:
        raise
    except (RuntimeError, LookupError) as caught:
        came = caught
    return {
        "done": done,
        "own": came in ERRORS.values(),
        "runtime": isinstance(came, RuntimeError),
        "text": str(came)[:500],
        "gradients": gradients_of(model),
        "hooks before": before,
        "hooks after": hooks(model),
    }


class Spoiled(torch.autograd.Function):
    """x itself; its backward multiplies by a factor, or raises."""

    @staticmethod
    def forward(ctx: Any, error: Any, factor: float, x: Tensor) -> Tensor:
        ctx.error, ctx.factor = error, factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        if ctx.error is not None:
            raise ctx.error
        return None, None, gradient * ctx.factor


def loss_of(kind: str, x: Tensor) -> Any:
    """The loss of a closure over x."""
    if kind in ERRORS:
        raise ERRORS[kind]
    errors = {
        "backward": RuntimeError("it broke"),
        "unwritten": NotImplementedError("later"),
    }
    if kind in (*errors, "custom"):
        return Spoiled.apply(errors.get(kind), NAN, x.exp()).sum()  # type: ignore[no-untyped-call]
    formulas: dict[str, Callable[[], Tensor]] = {
        "fine": lambda: x.square().sum(),
        "sqrt": lambda: (x.exp() + x.abs().sqrt() * 0).sum(),
        "inf": lambda: (x.reciprocal() * torch.arange(-1, 3)).sum(),
        "pow": lambda: x.pow(x).sum(),
        "negative": lambda: x.sqrt().sum(),
        "log": lambda: x.log().sum(),
        "vector": lambda: x * 2,
        "constant": lambda: x.detach().sum(),
        "spared": lambda: Spoiled.apply(None, 2.0, x).sum(),  # type: ignore[no-untyped-call]
    }
    return formulas[kind]()


def backward(module: Any, kinds: list[str], place: int, x: Tensor, anomaly: bool) -> dict[str, Any]:
    """What backward_nan gives or raises, how often the closure ran, and anomaly mode afterwards.

    The loss is a sum: the one at `place` is over x, all others are over numbers from 1 on, where none gives a
    NaN.
    """
    count, error, value = 0, None, None
    x.requires_grad_()

    def closure() -> Any:
        nonlocal count
        count += 1
        over = [x if i == place else x.abs() + 1 for i in range(len(kinds))]
        return sum(map(loss_of, kinds, over))

    torch.autograd.set_detect_anomaly(anomaly)
    try:
        value = module.backward_nan(closure)
    except (RuntimeError, LookupError) as caught:
        if isinstance(caught, NotImplementedError) and "unwritten" not in kinds:
            raise
        error = f"{type(caught).__name__}: {caught}"[:200]
    mode = torch.is_anomaly_enabled()
    return {"value": value, "error": error, "count": count, "mode": mode}


def model(module: Any, gradients: dict[str, Any]) -> Any:
    """A model in float64 with a shared parameter and these gradients."""
    inner = nn.Sequential(nn.Linear(2, 2), nn.PReLU())
    made: Any = nn.Sequential(nn.Linear(3, 2), inner, nn.Linear(2, 2)).double()
    made[2].weight = made[1][0].weight
    made[0].bias.requires_grad_(False)
    for name, parameter in made.named_parameters():
        parameter.grad = gradients.get(name)
    return made
