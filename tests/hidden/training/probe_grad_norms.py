"""Parameters, models, loaders and optimizers, made from tensors that the suite sends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]


# --- gradient_norm -------------------------------------------------------------------------------


def parameters(module: Any, gradients: list[Tensor | None]) -> list[nn.Parameter]:
    """Parameters with these gradients."""
    made = []
    for gradient in gradients:
        like = torch.zeros(2) if gradient is None else gradient
        parameter = nn.Parameter(torch.zeros_like(like))
        parameter.grad = gradient
        made.append(parameter)
    return made


def frozen_ones(module: Any, gradients: list[Tensor | None]) -> Iterator[nn.Parameter]:
    """The same parameters from a generator, frozen after they got their gradients."""
    for parameter in parameters(module, gradients):
        parameter.requires_grad_(False)
        yield parameter


# --- initialize ----------------------------------------------------------------------------------


class Doubled(nn.Linear):
    """A subclass of nn.Linear, as in other people's models."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def doubled(module: Any, width: int) -> Doubled:
    return Doubled(3, width)


def nested_layer(module: Any, fan_in: int, fan_out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(fan_in, fan_out))


class Network(nn.Module):
    """Linear layers, some of them nested or without a bias, among other layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(3, width)
        inner = nn.Linear(3, width, bias=False)
        self.deep = nn.ModuleDict({"inner": inner, "norm": nn.BatchNorm1d(width)})
        self.conv = nn.Conv1d(1, width, 3)
        self.table = nn.Embedding(3, width)
        self.last = nn.Linear(3, width)


def network(module: Any, width: int) -> Network:
    """A Network in evaluation mode, partly frozen, with known numbers in parameters and gradients."""
    made = Network(width).eval()
    for parameter in made.parameters():
        nn.init.constant_(parameter, 2.5)
        parameter.grad = torch.full_like(parameter, 7.0)
    made.first.bias.requires_grad_(False)
    made.get_parameter("deep.inner.weight").requires_grad_(False)
    return made


def initialized(module: Any, model: nn.Module, scheme: str) -> dict[str, Tensor]:
    """The parameters after initialize, by name."""
    module.initialize(model, scheme)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


# --- train_with_monitor --------------------------------------------------------------------------


class Scaled(nn.Module):
    """A linear layer of scaled inputs, which adds an offset only in train mode."""

    scale: Tensor
    offset: Tensor

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.register_buffer("scale", torch.randn(3))
        self.register_buffer("offset", torch.zeros(2))
        self.linear = nn.Linear(3, 2, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.linear(x * self.scale)
        return outputs + self.offset if self.training else outputs


def scaled(
    module: Any,
    seed: int,
    *,
    bias: bool = False,
    offset: float = 0.0,
    old_gradient: float | None = None,
) -> Scaled:
    """A Scaled in float64 and in evaluation mode, whose weight may have an old gradient."""
    torch.default_generator.manual_seed(seed)
    made = Scaled(bias=bias).double()
    made.offset.fill_(offset)
    if old_gradient is not None:
        made.linear.weight.grad = torch.full_like(made.linear.weight, old_gradient)
    made.eval()
    return made


def loss(module: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """A loss that changes if its arguments are swapped."""
    return lambda outputs, targets: (outputs - 2 * targets).square().mean()


class Passes:
    """A loader that yields different batches in each pass, and after the last pass starts over."""

    def __init__(self, passes: list[list[Batch]]) -> None:
        self.passes = passes
        self.begun = 0

    def __len__(self) -> int:
        return len(self.passes[0])

    def __iter__(self) -> Iterator[Batch]:
        batches = self.passes[self.begun % len(self.passes)]
        self.begun += 1
        return iter(batches)


def loader(module: Any, passes: list[list[Batch]]) -> Passes:
    return Passes(passes)


def rough(
    module: Any, model: Scaled, *, shrink_weight: float = 1.0, shrink_gradient: float = 1.0
) -> Any:
    """An optimizer that shrinks the weight before each step, and the gradient after it.

    Entries of the gradient that are not finite count as 0. `shrink_gradient` is in no attribute, so that nobody
    can use it to correct a norm that was taken too late.
    """

    class Rough(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self, closure: Any = None) -> Any:
            with torch.enable_grad():
                value = None if closure is None else closure()
            for group in self.param_groups:
                for parameter in group["params"]:
                    gradient = torch.nan_to_num(parameter.grad, 0.0, 0.0, 0.0)
                    parameter.mul_(group["shrink_weight"]).sub_(group["lr"] * gradient)
                    parameter.grad.mul_(shrink_gradient)
            return value

    return Rough([model.linear.weight], {"lr": 0.05, "shrink_weight": shrink_weight})


def trained(
    module: Any, model: Scaled, loader: Passes, optimizer: Any, epochs: int
) -> dict[str, Any]:
    """The norms from train_with_monitor, and the model's weight and modes after it."""
    norms = module.train_with_monitor(model, loader, loss(module), optimizer, epochs)
    return {
        "norms": norms,
        "weight": model.linear.weight.detach(),
        "modes": [part.training for part in model.modules()],
    }


# --- compare_initializations ---------------------------------------------------------------------


def builder(module: Any) -> Callable[[], Scaled]:
    return lambda: Scaled(bias=False).double()


class Shuffled(list[Batch]):
    """A loader that draws the order of each pass from torch's global random state."""

    def __iter__(self) -> Iterator[Batch]:
        order = torch.randperm(len(self)).tolist()
        return iter([self[i] for i in order])


def shuffled(module: Any, batches: list[Batch]) -> Shuffled:
    return Shuffled(batches)
