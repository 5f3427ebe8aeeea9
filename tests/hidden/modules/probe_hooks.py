"""Models that are looked into, and what passes in a block and after it give."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

# PyTorch says so of a full backward hook where x requires no gradient, which the stub allows.
warnings.filterwarnings("ignore", "Full backward hook is firing")

# The names of the modules that run between body and head, in order, and whether each has a skip connection.
Plan = Sequence[tuple[str, bool]]
# What a Parts was called on; a list of this module, so that a deep copy of a model writes into it, too.
inputs: list[Tensor] = []


class Gain(nn.Module):
    """A layer of one's own, without children."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x * self.weight)


class Pair(nn.Module):
    """Returns a tuple."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


class Total(nn.Module):
    """Returns a tensor without dimensions."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sum()


def planned(plan: Plan) -> Callable[[nn.Module, Tensor], Tensor]:
    """Calls a model's modules by a plan, which no attribute says: the calls cannot be listed beforehand.

    The outputs of "side", "pair" and "total" go nowhere.
    """

    def run(model: nn.Module, x: Tensor) -> Tensor:
        for name, skips in plan:
            y = nn.Module.get_submodule(model, name)(x)
            if name not in ("side", "pair", "total"):
                x = x + y if skips else y
        return x

    return run


class Parts(nn.Module):
    """Leaves of all kinds; between body and head a plan says which run, some twice, and one never does."""

    def __init__(self, error: str, plan: Plan) -> None:
        super().__init__()
        self.middle = planned(plan)
        self.head = nn.Linear(4, 2)
        self.unused = nn.Linear(2, 2)
        self.body = nn.Sequential(nn.Tanh(), nn.Sequential(), nn.Linear(5, 4)).eval()
        self.gain = Gain()
        self.pair = Pair()
        self.block = nn.Sequential(nn.Sequential(nn.Linear(4, 4)))
        self.total = Total()
        self.stem = nn.Linear(3, 5)
        self.error = error
        self.register_forward_pre_hook(repeat_rows)
        self.stem.register_forward_hook(look)

    def forward(self, x: Tensor) -> Tensor:
        inputs.append(x.detach().clone())
        x = self.head(self.middle(self, self.body(self.stem(x))))
        if self.error:
            raise getattr(builtins, self.error)("the model broke")
        return x


def repeat_rows(_model: nn.Module, given: tuple[Tensor]) -> tuple[Tensor]:
    """A hook of the model's own, which model.forward skips."""
    return (torch.cat([given[0], given[0]]),)


def look(_layer: nn.Module, _given: tuple[Tensor], _output: Tensor) -> None:
    """A hook of somebody else."""


class Network(nn.Module):
    """(n, 3) to (n, 2); between body and head a plan says what runs."""

    def __init__(self, in_place: bool, plan: Plan) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=in_place))
        self.gain = Gain()
        self.bend = Gain()
        self.side = nn.Linear(4, 5)
        self.mix = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)
        self.middle = planned(plan)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.head(self.middle(self, self.body(x)))
        return output


def parts(module: Any, error: str = "", plan: Plan = (("gain", False),)) -> Parts:
    """A Parts that runs these in its middle, and that ends with this error."""
    return Parts(error, plan)


def layer(module: Any, in_features: int, out_features: int) -> nn.Linear:
    return nn.Linear(in_features, out_features)


def network(
    module: Any, seed: int, plan: Plan, *, in_place: bool = False, frozen: Sequence[str] = ()
) -> Network:
    """A Network with drawn parameters that have gradients, some of them frozen."""
    made = Network(in_place, plan).double()
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in made.named_parameters():
        parameter.data.normal_(generator=generator)
        parameter.requires_grad_(name not in frozen)
        parameter.grad = torch.ones_like(parameter)
    return made


# --- trace_shapes --------------------------------------------------------------------------------


def trace(module: Any, model: nn.Module, x: Tensor) -> dict[str, Any]:
    """What trace_shapes returns, and what it called the model on."""
    inputs.clear()
    shapes = module.trace_shapes(model, x)
    return {"shapes": shapes, "inputs": [*inputs]}


def out_of_trace(module: Any, model: nn.Module, x: Tensor) -> str:
    """The name of the exception that comes out of trace_shapes."""
    try:
        module.trace_shapes(model, x)
    except (LookupError, KeyboardInterrupt) as raised:
        return type(raised).__name__
    return ""


# --- blocks: `name` is that of the function that captures ----------------------------------------


def passes(model: nn.Module, x: Tensor, weight: Tensor) -> dict[str, Any]:
    """A forward pass, and a backward pass from the weighted sum of its output."""
    model.zero_grad()
    output = model(x)
    (output * weight).sum().backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {"output": output.detach(), "gradients": gradients}


def two_passes(
    module: Any, model: nn.Module, names: Sequence[str], x: Tensor, later: Tensor
) -> dict[str, Any]:
    """The activations after a pass under torch.no_grad(), and after another one."""
    with module.capture_activations(model, names) as activations:
        begin = dict(activations)
        with torch.no_grad():
            model(x)
        first = dict(activations)
        model(later)
        return {"begin": begin, "first": first, "second": dict(activations)}


def attached(module: Any, model: nn.Module, names: Sequence[str], x: Tensor) -> dict[str, Any]:
    """The activations of a pass, and the names of those that are in a graph."""
    with module.capture_activations(model, names) as activations:
        model(x)
    graph = [name for name, value in activations.items() if value.requires_grad]
    return {"values": activations, "graph": graph}


def changed_output(module: Any, model: nn.Module, names: Sequence[str], x: Tensor) -> Any:
    """The activations of a pass whose output is set to zero afterwards."""
    with module.capture_activations(model, names) as activations:
        model(x).detach().zero_()
    return activations


def captured(
    module: Any, name: str, model: nn.Module, names: Sequence[str], x: Tensor, weight: Tensor
) -> Any:
    """What a block holds after a pass."""
    with getattr(module, name)(model, names) as values:
        passes(model, x, weight)
        return dict(values)


def two_backward_passes(
    module: Any, model: nn.Module, names: Sequence[str], x: Tensor, weight: Tensor, later: Tensor
) -> Any:
    """The gradients after two backward passes through one graph."""
    with module.capture_gradients(model, names) as gradients:
        output = model(x)
        (output * weight).sum().backward(retain_graph=True)
        (output * later).sum().backward()
    return gradients


def pass_after_the_block(
    module: Any, model: nn.Module, names: Sequence[str], x: Tensor, weight: Tensor
) -> list[str]:
    """The names whose gradients one more backward pass through a block's graph changes after its end.

    PyTorch's own module hooks stay in a graph that was made while they were there: only outputs that have
    hooks of their own are asked.
    """
    outputs: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        return lambda _module, _given, output: outputs.update({name: output})

    for name in names:
        model.get_submodule(name).register_forward_hook(keep(name))
    with module.capture_gradients(model, names) as gradients:
        total = (model(x) * weight).sum()
        total.backward(retain_graph=True)
    end = {name: gradient.clone() for name, gradient in gradients.items()}
    (2 * total).backward()
    if not any(output._backward_hooks for output in outputs.values()):
        return []
    return sorted(name for name, kept in end.items() if not kept.equal(gradients[name]))


def under_no_grad(module: Any, model: nn.Module, names: Sequence[str], x: Tensor) -> Any:
    """The gradients after a pass without any."""
    with module.capture_gradients(model, names) as gradients, torch.no_grad():
        model(x)
    return gradients


def beside_other_hooks(
    module: Any,
    name: str,
    model: Any,
    names: Sequence[str],
    x: Tensor,
    weight: Tensor,
    before: float,
    inside: float,
) -> dict[str, Any]:
    """Passes in a block and after it, with hooks that multiply: one from before, one from inside."""
    model.head.register_forward_hook(lambda _head, _given, output: output * before)
    with getattr(module, name)(model, names):
        model.head.register_forward_hook(lambda _head, _given, output: output * inside)
        seen = passes(model, x, weight)
    return {"inside": seen, "after": passes(model, x, weight)}


def nested(
    module: Any,
    name: str,
    model: nn.Module,
    names: Sequence[str],
    first: tuple[Tensor, Tensor],
    second: tuple[Tensor, Tensor],
) -> dict[str, Any]:
    """What two nested blocks hold after a pass in both and one in the outer one alone."""
    with getattr(module, name)(model, names) as outer:
        with getattr(module, name)(model, names) as inner:
            passes(model, *first)
        passes(model, *second)
    return {"outer": outer, "inner": inner}


def call(module: Any, name: str, model: nn.Module, names: Sequence[str]) -> None:
    """Call the function, and begin no block."""
    getattr(module, name)(model, names)


def begin(module: Any, name: str, model: nn.Module, names: Sequence[str]) -> None:
    """Begin a block, and end it."""
    with getattr(module, name)(model, names):
        pass


def out_of_block(module: Any, name: str, model: nn.Module, names: Sequence[str], error: str) -> str:
    """The name of the exception that comes out of a block in which this error is raised."""
    try:
        with getattr(module, name)(model, names):
            raise getattr(builtins, error)("the block broke")
    except (LookupError, KeyboardInterrupt) as raised:
        return type(raised).__name__
    return ""
