"""Models, optimizers, losses and loaders for range tests."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]

MOST_PASSES = 50
# The buffers of Network.
BUFFERS = ["gauges.0.seen", "gauges.1.0.seen"]
BUFFERS += [f"body.2.1.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")]


# --- the range test ------------------------------------------------------------------------------


def losses(
    module: Any,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_fn: Loss,
    loader: Passes,
    *span: float,
) -> Tensor:
    """The losses of a range test as a float64 tensor, whatever their type."""
    result = module.lr_range_test(model, optimizer, loss_fn, loader, *span)
    return torch.as_tensor(result.losses, dtype=torch.float64).detach()


def result(module: Any, *arguments: Any) -> list[Any]:
    """The fields of a range test's result, and whether the losses require a gradient."""
    found = module.lr_range_test(*arguments)
    requires_grad = getattr(found.losses, "requires_grad", False)
    return [found.learning_rates, found.losses, requires_grad]


def losses_and_after(
    module: Any,
    model: Network,
    optimizer: torch.optim.Optimizer,
    loss_fn: Loss,
    loader: Passes,
    span: list[float],
    inputs: Tensor,
    gradient: Tensor,
) -> dict[str, Tensor]:
    """The losses of a range test, and the behavior of model and optimizer after it.

    Copies of both run on `inputs` and step with `gradient`.
    """
    report = {"losses": losses(module, model, optimizer, loss_fn, loader, *span)}
    model, optimizer = copy.deepcopy((model, optimizer))
    # Read from attributes: named_buffers() could be made to return others.
    buffers: list[Tensor] = [attrgetter(name)(model) for name in BUFFERS]
    report["buffers"] = torch.cat([buffer.double().flatten() for buffer in buffers])
    report["outputs"] = model.line(inputs).detach()
    report["added"] = model(inputs).detach() - report["outputs"]
    weight = optimizer.param_groups[0]["params"][0]
    before = weight.detach().clone()
    for _ in range(2):
        optimizer.zero_grad()
        weight.grad = gradient.clone()
        optimizer.step()
    report["moved"] = before - weight.detach()
    return report


# --- losses and loaders --------------------------------------------------------------------------


def square_loss(module: Any) -> Loss:
    """A loss that changes if its arguments are swapped."""
    return lambda outputs, targets: (outputs - 2 * targets).square().mean()


def product(module: Any) -> Loss:
    """A loss whose decrease in a step does not depend on a constant in the outputs."""
    return lambda outputs, targets: (outputs * targets).mean()


def distance(module: Any) -> Loss:
    """A loss that is exactly the target if the output is 0."""
    return nn.functional.l1_loss


class EndlessError(Exception):
    """Raised if a loader is iterated again and again, to end the test."""


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
    """A regression with these parameters, and with old gradients if there are some."""
    made = Line(**parameters)
    for name, gradient in gradients.items():
        made.get_parameter(name).grad = gradient
    return made


class Gauge(nn.Module):
    """Add a reading in train mode, and count that in a buffer that is not in the state dict."""

    seen: Tensor

    def __init__(self, reading: float) -> None:
        super().__init__()
        self.reading = reading
        self.register_buffer("seen", torch.zeros(2), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        self.seen.add_(1.0)
        return x + self.reading


class Network(nn.Module):
    """A regression and gauges, beside nested layers that add nothing."""

    def __init__(self, weight: Tensor, bias: Tensor, readings: list[float]) -> None:
        super().__init__()
        self.line = Line(weight, bias)
        first, second = (Gauge(reading) for reading in readings)
        self.gauges = nn.Sequential(first, nn.Sequential(second))
        inner = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        self.body = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), inner)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.gauges(self.line(x)) + 0 * self.body(x).sum()
        return y


def network(
    module: Any, parameters: dict[str, Tensor], readings: list[float], count: int
) -> Network:
    """A network with a frozen bias, with `count` in all buffers, and with mixed modes."""
    made = Network(**parameters, readings=readings).double()
    made.get_parameter("body.0.bias").requires_grad_(False)
    for buffer in made.buffers():
        buffer.fill_(count)
    for name, part in made.named_modules():
        part.training = name in ("gauges.0", "body.1", "body.2", "body.2.1")
    return made


# --- optimizers ----------------------------------------------------------------------------------


def sgd(
    module: Any,
    model: nn.Module,
    groups: list[dict[str, Any]],
    momenta: dict[str, Tensor] | None = None,
) -> torch.optim.SGD:
    """SGD with these groups, which list parameters by name. Those in `momenta` have momentum already."""
    for group in groups:
        group["params"] = [model.get_parameter(name) for name in group["params"]]
    made = torch.optim.SGD(groups, lr=0.1)
    for name, momentum in (momenta or {}).items():
        made.state[model.get_parameter(name)] = {"momentum_buffer": momentum}
    return made
