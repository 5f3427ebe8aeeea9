"""A model with scripted losses, whose weight counts the steps, and reports on calls with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

CALLS: list[dict[str, Any]] = []  # of the model: its modes and its batch
PASSES: list[int] = []  # over loaders: the number of the loader's first row
# Rows with this number or a larger one are for validation.
VALIDATION = 100


class Loader(list[Any]):
    """Batches with a length and a dataset."""

    def __iter__(self) -> Iterator[Any]:
        PASSES.append(int(self[0][0][0, 0]))
        return super().__iter__()

    @property
    def dataset(self) -> list[Any]:
        batches = super().__iter__()  # not a pass
        return [row for x, y in batches for row in zip(x, y, strict=True)]


def loader(module: Any, batches: list[Any]) -> Loader:
    return Loader(batches)


Run = Callable[[list[bool], Tensor, Tensor, Tensor], Tensor]


def run(train_losses: list[float], val_losses: list[float], steps: int, slope: float) -> Run:
    """The forward function of a Scripted, from rows and weights to outputs. No attribute has the script.

    A training loss needs training mode and training rows. So a forgotten eval() fails only the tests of modes.
    """

    def outputs(modes: list[bool], rows: Tensor, weight: Tensor, rate: Tensor) -> Tensor:
        number, target, begin, extra = rows.unbind(1)
        autograd = torch.is_grad_enabled()
        CALLS.append({"training": modes, "autograd": autograd, "first row": int(number[0])})
        step = round(weight.item() / slope)
        epoch = step // steps
        if all(modes) and number[0] < VALIDATION:
            losses = torch.full((len(rows),), at(train_losses, step))
        else:
            losses = extra + at(val_losses, epoch)
        total = weight + rate
        losses = losses + slope * (total.detach() - total)  # adds 0, with a gradient of -slope
        labels = torch.where(begin <= epoch, target, target % 3 + 1).long()
        scores = 999.0 * F.one_hot(labels, 4)[:, 1:]
        return torch.cat([losses.unsqueeze(1), scores], dim=1)

    return outputs


def at(losses: list[float], index: int) -> float:
    """The loss at an index, or the nearest one."""
    return losses[min(max(index, 0), len(losses) - 1)]


class Scripted(nn.Module):
    """A model with a scripted training loss for each step, and a validation loss for the start and each epoch.

    The gradient of both weights is -slope, so that with SGD and a rate of 1 they count the steps. Output 0 is
    the loss. Outputs 1 to 3 are the scores of the targets 1 to 3. A row has a number, its target, the first
    epoch in which it is classified correctly, and a number that is added to its validation loss.
    """

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self.inner = nn.Identity()
        self.weight = nn.Parameter(torch.zeros(()))
        self.rate = nn.Parameter(torch.zeros(()))
        self.register_buffer("counter", torch.tensor(0))
        self.counter: Tensor

    def forward(self, rows: Tensor) -> Tensor:
        modes = [part.training for part in self.modules()]
        self.counter += all(modes)
        return self.run(modes, rows, self.weight, self.rate)


NOT_ASKED_FOR = 99.0  # the loss if a test scripts none


def scripted(
    module: Any,
    train_losses: list[float] | None = None,
    val_losses: list[float] | None = None,
    steps: int = 1,
    slope: float = 1.0,
) -> Scripted:
    """A Scripted with `steps` steps per epoch, and with a hook that adds 1/4 to its outputs."""
    train_losses = train_losses or [NOT_ASKED_FOR]
    val_losses = val_losses or [NOT_ASKED_FOR]
    model = Scripted(run(train_losses, val_losses, steps, slope))
    model.register_forward_hook(lambda part, given, outputs: outputs + 0.25)
    return model


def used(module: Any, modes: list[bool], **script: Any) -> Scripted:
    """The same model in these modes, its own and its part's, with old gradients."""
    model = scripted(module, **script)
    for part, training in zip(model.modules(), modes, strict=True):
        part.training = training
    for parameter in model.parameters():
        parameter.grad = torch.tensor(-7.0)
    return model


def frozen(module: Any, modes: list[bool]) -> Scripted:
    """The same model with one frozen weight."""
    model = used(module, modes)
    model.rate.requires_grad_(False)
    return model


def loss(module: Any) -> Any:
    return lambda outputs, targets: outputs[:, 0].mean()


def sgd(module: Any, model: nn.Module) -> torch.optim.SGD:
    """SGD with a group for each parameter."""
    return torch.optim.SGD([{"params": [p]} for p in model.parameters()], lr=1.0)


def scheduler(module: Any, optimizer: Any, factor: float) -> LambdaLR:
    """A scheduler that multiplies only the rate of the second parameter."""
    return LambdaLR(optimizer, [lambda step: 1.0, lambda step: factor**step])


def called(
    module: Any, name: str, model: Scripted, *arguments: Any, **options: Any
) -> dict[str, Any]:
    """The result of a call, the model's state after it, and the calls that it made."""
    CALLS.clear()
    PASSES.clear()
    value = getattr(module, name)(model, *arguments, **options)
    return {
        "value": value,
        "state": {name: tensor.item() for name, tensor in model.state_dict().items()},
        "calls": list(CALLS),
        "passes": list(PASSES),
    }
