"""Models to look into, and the results of passes inside a block and after it."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

# PyTorch's warning about a full backward hook where x requires no gradient. The stub allows that.
warnings.filterwarnings("ignore", "Full backward hook is firing")

# The modules that run between body and head, in order: their names, and whether each has a skip connection.
Plan = Sequence[tuple[str, bool]]
# The inputs that a Parts was called on. The list is global, so that a deep copy of a model writes into it, too.
inputs: list[Tensor] = []


class Gain(nn.Module):
    """A custom layer without children."""

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
    """A function that calls a model's modules by a plan.

    The plan is in no attribute, so nobody can list the calls beforehand.

    The outputs of "side", "pair" and "total" are not used.
    """

    def run(model: nn.Module, x: Tensor) -> Tensor:
        for name, skips in plan:
            y = nn.Module.get_submodule(model, name)(x)
            if name not in ("side", "pair", "total"):
                x = x + y if skips else y
        return x

    return run


class Parts(nn.Module):
    """A model with leaves of all kinds. A plan says which modules run between body and head."""

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
    """A hook on the model itself. Calling model.forward skips it."""
    return (torch.cat([given[0], given[0]]),)


def look(_layer: nn.Module, _given: tuple[Tensor], _output: Tensor) -> None:
    """A hook that somebody else has registered."""


class Network(nn.Module):
    """A network from (n, 3) to (n, 2). A plan says which modules run between body and head."""

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
    """A Parts that runs this plan, and then raises this error if one is named."""
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
    """The result of trace_shapes, and the inputs on which it called the model."""
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


# --- blocks: `name` is the name of the capturing function ----------------------------------------


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
    """The activations before a pass, after one under torch.no_grad(), and after another."""
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
    """The dict of a block after a pass."""
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
    """The names whose gradients change in a backward pass through a block's graph after the block's end.

    PyTorch's module hooks stay in a graph that was built while they were registered, so only outputs with
    hooks of their own count.
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
    """The gradients after a pass under torch.no_grad()."""
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
    """Passes in a block and after it, beside two hooks that multiply: one registered before, one inside."""
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
    """The dicts of two nested blocks after a pass in both and a pass in the outer one only."""
    with getattr(module, name)(model, names) as outer:
        with getattr(module, name)(model, names) as inner:
            passes(model, *first)
        passes(model, *second)
    return {"outer": outer, "inner": inner}


def call(module: Any, name: str, model: nn.Module, names: Sequence[str]) -> None:
    """Call the function without entering a block."""
    getattr(module, name)(model, names)


def begin(module: Any, name: str, model: nn.Module, names: Sequence[str]) -> None:
    """Enter a block and leave it."""
    with getattr(module, name)(model, names):
        pass


def out_of_block(module: Any, name: str, model: nn.Module, names: Sequence[str], error: str) -> str:
    """The name of the exception that comes out of a block whose body raises this error."""
    try:
        with getattr(module, name)(model, names):
            raise getattr(builtins, error)("the block broke")
    except (LookupError, KeyboardInterrupt) as raised:
        return type(raised).__name__
    return ""
