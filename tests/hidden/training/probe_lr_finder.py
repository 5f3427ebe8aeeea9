"""Live models, optimizers, losses and loaders for range tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]

MOST_PASSES = 50


# --- the range test ------------------------------------------------------------------------------


def range_test(module: Any, *arguments: Any) -> dict[str, Any]:
    """The fields of a range test's result, and whether the losses require a gradient."""
    result = module.lr_range_test(*arguments)
    losses = getattr(result, "losses", None)
    return {
        "learning_rates": getattr(result, "learning_rates", None),
        "losses": losses,
        "attached": getattr(losses, "requires_grad", False),
    }


# --- losses and loaders --------------------------------------------------------------------------


def square_loss(module: Any) -> Loss:
    """A loss that is another one with its arguments swapped."""
    return lambda outputs, targets: (outputs - 2 * targets).square().mean()


def distance(module: Any) -> Loss:
    """A loss that is exactly the target where the output is 0."""
    return nn.functional.l1_loss


class EndlessError(Exception):
    """Ends a test that begins a loader anew again and again."""


class Passes:
    """A loader whose k-th pass yields the k-th list of batches, and the last list from then on."""

    def __init__(self, passes: list[list[Batch]]) -> None:
        self.passes = passes
        self.begun = 0

    def __len__(self) -> int:
        return len(self.passes[0])

    def __iter__(self) -> Iterator[Batch]:
        if self.begun == MOST_PASSES:
            raise EndlessError("the loader is begun anew for ever")
        batches = self.passes[min(self.begun, len(self.passes) - 1)]
        self.begun += 1
        return iter(batches)


def loader(module: Any, passes: list[list[Batch]]) -> Passes:
    return Passes(passes)


# --- models --------------------------------------------------------------------------------------


class Line(nn.Module):
    """Linear regression."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


def line(module: Any, parameters: dict[str, Tensor], gradients: dict[str, Tensor]) -> Line:
    """A regression with these parameters, and with gradients from before where there are some."""
    made = Line(**parameters)
    for name, gradient in gradients.items():
        made.get_parameter(name).grad = gradient
    return made


class Gauge(nn.Module):
    """Adds `reading` in train mode, and nothing in eval mode."""

    def __init__(self, reading: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.reading = reading

    def forward(self, x: Tensor) -> Tensor:
        return x + 0 * self.weight + self.reading * float(self.training)


def gauges(module: Any, readings: list[float], training: str) -> nn.Sequential:
    """Three gauges, two of them in a module inside: all in eval mode but the one of this name."""
    first, second, third = (Gauge(reading) for reading in readings)
    made = nn.Sequential(first, nn.Sequential(second, third)).eval()
    made.get_submodule(training).train()
    return made


class Counter(nn.Module):
    """Counts its calls in train mode, in a buffer that the state dict does not hold."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen.add_(1.0)
        return x


class Network(nn.Module):
    """A regression, and beside it layers within layers that add nothing, with every sort of buffer."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.line = Line(weight, bias)
        inner = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), Counter())
        self.body = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), inner)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.line(x) + 0 * self.body(x).sum()
        return y


def network(
    module: Any, parameters: dict[str, Tensor], frozen: list[str], training: list[str]
) -> Network:
    """A network with buffers in use; parameters are frozen and submodules train if they are named."""
    made = Network(**parameters).double()
    for name in frozen:
        made.get_parameter(name).requires_grad_(False)
    for buffer in made.buffers():
        buffer.copy_(torch.randint(3, 9, buffer.shape))
    for name, part in made.named_modules():
        part.training = name in training
    return made


# --- optimizers ----------------------------------------------------------------------------------


def sgd(
    module: Any, model: nn.Module, groups: list[dict[str, Any]], momenta: dict[str, Tensor]
) -> torch.optim.SGD:
    """SGD of these groups, whose parameters go by name; some have momentum already."""
    for group in groups:
        group["params"] = [model.get_parameter(name) for name in group["params"]]
    made = torch.optim.SGD(groups, lr=0.1)
    for name, momentum in momenta.items():
        made.state[model.get_parameter(name)] = {"momentum_buffer": momentum}
    return made
