"""Models in which a part spoils the values, and reports of the student's functions."""

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


ERRORS: dict[str, Exception] = {
    "odd": OddError("it broke"),
    "lookup": LookupError("it broke"),
    "backward": RuntimeError("it broke"),
    "unwritten": NotImplementedError("later"),
}


def raised_by(call: Callable[[], Any]) -> Exception | None:
    """Return the error that a call raises, or None. The stub's own error comes through."""
    try:
        call()
    except (LookupError, RuntimeError) as error:
        if isinstance(error, NotImplementedError) and error not in ERRORS.values():
            raise
        return error
    return None


def shown(error: Exception | None) -> str | None:
    return None if error is None else f"{type(error).__name__}: {error}"[:80]


# --- gradient_norms ------------------------------------------------------------------------------


def model(module: Any, gradients: dict[str, Any]) -> Any:
    """Make a model with a shared parameter and these gradients, in their dtype."""
    inner = nn.Sequential(nn.Linear(2, 2), nn.PReLU())
    made: Any = nn.Sequential(nn.Linear(3, 2), inner, nn.Linear(2, 2))
    made[2].weight = made[1][0].weight
    made[0].bias.requires_grad_(False)
    made.to(gradients["0.weight"].dtype)
    for name, parameter in made.named_parameters():
        parameter.grad = gradients.get(name)
    return made


# --- first_non_finite ----------------------------------------------------------------------------

# What a module of each kind does to a tensor (3, 4).
KINDS: dict[str, Callable[[Any], Any]] = {
    "same": lambda x: x * 1,
    "nan": lambda x: x.index_fill(0, torch.tensor(1), NAN),
    "inf": lambda x: x.index_fill(0, torch.tensor(2), -INF),
    "large": lambda x: torch.full_like(x, torch.finfo(x.dtype).max),
    # In place, so that the output of the part before it is finite afterwards.
    "cover": lambda x: x.nan_to_num_(0.0, 0.0, 0.0),
    # Containers in which every tensor is finite, and two that hold a NaN.
    "others": lambda x: {"x": x, "n": torch.tensor([7]), "b": x > 0, "e": x[:0], "o": [None, NAN]},
    "pair": lambda x: [x, Pair(None, x[:1])],
    "nested": lambda x: {"x": x, "deep": [None, (x, OrderedDict(last=x * NAN))]},
    "listed": lambda x: [x, Pair(None, x[:1] * NAN)],
    # Takes the tensor out of any of these containers.
    "unpack": lambda x: x["x"] if isinstance(x, dict) else x[0],
}
# The mode of each part that ran, in order.
ran: list[bool] = []


class Part(nn.Module):
    """A module that calls its parts in turn, and then does what its kind says.

    It has a parameter of NaN that it does not read. No attribute shows its kind.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()

        def work(training: bool, x: Any) -> Any:
            ran.append(training)
            if kind in ERRORS:
                raise ERRORS[kind]
            return KINDS[kind](x)

        self.work = work
        self.unread = nn.Parameter(torch.tensor(NAN))
        self.unread.grad = torch.ones(())
        self.register_forward_hook(lambda *_: None)

    def forward(self, x: Any, *others: Any) -> Any:
        for part in self.children():
            x = part(x)
        return self.work(self.training, sum(others, x) if others else x)


def build(module: Any, kinds: dict[str, str], training: bool) -> nn.Module:
    """Make a model of two boxes, a and b, with two parts each. Parts that are not in `kinds` are "same".

    All parts are in this mode, and the model itself, "", is in the other one.
    """
    model = Part(kinds.get("", "same"))
    for place in ("a", "b", "a.a", "a.b", "b.a", "b.b"):
        box, _, name = place.rpartition(".")
        model.get_submodule(box).add_module(name, Part(kinds.get(place, "same")))
    model.train(training)
    model.training = not training
    return model


def modes_of_run(module: Any, model: nn.Module, *inputs: Tensor) -> list[bool]:
    """Return the modes of the parts that first_non_finite runs, in order."""
    ran.clear()
    module.first_non_finite(model, *inputs)
    return list(ran)


# --- watch_gradients -----------------------------------------------------------------------------


class Spoiled(torch.autograd.Function):
    """The identity. Its backward multiplies by a factor, or raises an error."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float, error: Any) -> Tensor:
        ctx.error, ctx.factor = error, factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        if ctx.error is not None:
            raise ctx.error
        return gradient * ctx.factor, None, None


def spoiled(x: Tensor, factor: float, error: str = "") -> Any:
    return Spoiled.apply(x, factor, ERRORS.get(error))  # type: ignore[no-untyped-call]


# The factors by which each pass of a Network multiplies the gradients behind the stem and behind the head. No
# attribute of the model shows them.
factors: list[list[float]] = []


class Network(nn.Module):
    """A model that runs three layers, which have the first three names. Some weights are frozen."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        stem, core, head = nn.Linear(4, 3), nn.Linear(3, 3), nn.Linear(3, 2)
        unused = nn.Linear(2, 2)
        core.weight.requires_grad = False
        head.weight.requires_grad = False
        head.bias.register_hook(lambda _: None)
        unused.bias.grad = torch.ones(2)
        self.layers = stem, core, head
        # Not in the order in which they run.
        for place, layer in ((0, stem), (2, head), (1, core), (3, unused)):
            self.add_module(names[place], layer)

    def forward(self, x: Tensor) -> Any:
        stem, core, head = self.layers
        behind_stem, behind_head = factors[-1]
        x = spoiled(torch.tanh(stem(x)), behind_stem)
        return spoiled(head(core(x)), behind_head).sum()


def watched(
    module: Any, names: list[str], passes: list[list[float]], x: Tensor, error: str = ""
) -> dict[str, Any]:
    """Run backward passes with these factors in a block, and raise an error at its end if one is named.

    "done" is the number of passes that raised nothing, or None if the block does not begin. "named" lists the
    layers of the parameters that the error names. After the block, a last pass brings a NaN.
    """
    torch.manual_seed(0)
    model = Network(names).eval()
    done, later = None, None

    def run() -> None:
        nonlocal done, later
        with module.watch_gradients(model):
            done = 0
            factors.append([NAN, NAN])
            later = model(x)
            for pair in passes:
                factors.append(pair)
                model(x).backward()
                done += 1
            if error:
                raise ERRORS[error]

    error_of_run = raised_by(run)
    named = [name for name, _ in model.named_parameters() if name in str(error_of_run)]
    gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    tables = [[p._backward_hooks, p._post_accumulate_grad_hooks] for p in model.parameters()]
    return {
        "done": done,
        "raised": isinstance(error_of_run, RuntimeError),
        "own": error_of_run in ERRORS.values(),
        "named": [name.partition(".")[0] for name in named],
        "gradients": gradients,
        "modes": [torch.is_grad_enabled(), *(part.training for part in model.modules())],
        "hooks": sum(len(table or ()) for pair in tables for table in pair),
        "later": later is not None and shown(raised_by(later.backward)),
    }


# --- backward_nan --------------------------------------------------------------------------------

# Losses of closures. A closure that is named after an error raises it.
LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "fine": lambda x: x.square().sum(),
    "sqrt": lambda x: (x.exp() + x.abs().sqrt() * 0).sum(),
    "inf": lambda x: (x.reciprocal() * torch.arange(-1, 3)).sum(),
    "pow": lambda x: x.pow(x).sum(),
    "negative": lambda x: x.sqrt().sum(),
    "log": lambda x: x.log().sum(),
    "custom": lambda x: spoiled(x.exp(), NAN).sum(),
    "spared": lambda x: spoiled(x, 2.0).sum(),
    "in backward": lambda x: spoiled(x, 1.0, "backward").sum(),
    "unwritten in backward": lambda x: spoiled(x, 1.0, "unwritten").sum(),
    "vector": lambda x: x * 2,
    "constant": lambda x: x.detach().sum(),
}


def backward(
    module: Any, kinds: list[str], place: int, x: Tensor, anomaly: bool = False
) -> dict[str, Any]:
    """Return the result or error of backward_nan, the number of closure calls, and anomaly mode afterwards.

    The loss is a sum. Its term at `place` is over x; all others are over numbers from 1 on, where none gives a
    NaN.
    """
    count, value = 0, None
    x.requires_grad_()

    def closure() -> Any:
        nonlocal count
        count += 1
        if kinds[place] in ERRORS:
            raise ERRORS[kinds[place]]
        over = [x if i == place else x.abs() + 1 for i in range(len(kinds))]
        return sum(LOSSES[kind](each) for kind, each in zip(kinds, over, strict=True))

    def call() -> None:
        nonlocal value
        value = module.backward_nan(closure)

    torch.autograd.set_detect_anomaly(anomaly)
    error = raised_by(call)
    mode = torch.is_anomaly_enabled()
    return {"value": value, "error": shown(error), "calls": count, "mode": mode}
