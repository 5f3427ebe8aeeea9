"""A model whose weight counts the steps and whose losses are written in advance, and runs that report on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

CALLS: list[list[Any]] = []  # of the model: the modes of its parts, the number of the first row
PASSES: list[int] = []  # over loaders: the number of their first row


class Loader(list[Any]):
    """Batches with a length and a dataset."""

    def __iter__(self) -> Iterator[Any]:
        PASSES.append(int(self[0][0][0, 0]))
        return super().__iter__()

    @property
    def dataset(self) -> list[Any]:
        return [row for x, y in list.__iter__(self) for row in zip(x, y, strict=True)]


def loader(module: Any, batches: list[Any]) -> Loader:
    return Loader(batches)


class Scripted(nn.Module):
    """A model whose loss is that of the epoch, and is higher in training, where it falls with each step.

    Its gradient is -1 in either mode, so that a wrong mode shows in losses and in the buffer alone. Rows are
    (number, target, the epoch from which on they are classified rightly, what is added to their loss).
    """

    def __init__(self, losses: list[float], steps: int) -> None:
        super().__init__()
        self.losses, self.steps, self.inner = losses, steps, nn.Identity()
        self.weight, self.rate = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))
        self.register_buffer("counter", torch.tensor(0))
        self.counter: Tensor

    def forward(self, rows: Tensor) -> Tensor:
        modes = [part.training for part in self.modules()]
        CALLS.append([*modes, int(rows[0, 0])])
        self.counter += all(modes)
        step = round(self.weight.item())
        epoch = step // self.steps
        loss = self.losses[epoch] if 0 <= epoch < len(self.losses) else 99.0
        total = self.weight + self.rate
        slope = total.detach() - total
        first = slope + rows[:, 3] + loss
        if all(modes):
            first = slope + torch.full((len(rows),), loss).nan_to_num(50.0, 50.0, 50.0)
            first = first + 8.0 - 2 * (step % self.steps)
        labels = torch.where(rows[:, 2] <= epoch, rows[:, 1], rows[:, 1] % 3 + 1).long()
        return torch.cat([first.unsqueeze(1), 999.0 * F.one_hot(labels, 4)[:, 1:]], dim=1)


def scripted(module: Any, losses: Any, steps: int, grad: Any = None, modes: Any = None) -> Any:
    """A Scripted whose hook adds 1/4 to all outputs; with all modes given as True one weight is frozen."""
    model = Scripted(losses, steps)
    model.rate.requires_grad_(modes is None or not all(modes))
    model.register_forward_hook(lambda *call: call[-1] + 0.25)
    for parameter in model.parameters() if grad is not None else ():
        parameter.grad = torch.tensor(grad)
    for part, training in zip(model.modules(), modes or (), strict=bool(modes)):
        part.training = training
    return model


def loss(module: Any) -> Any:
    return lambda outputs, targets: outputs[:, 0].mean()


def sgd(module: Any, model: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD([{"params": [p]} for p in model.parameters()], lr=1.0)


def scheduler(module: Any, optimizer: Any, factor: float) -> LambdaLR:
    """Multiplies the rate of the second parameter alone."""
    return LambdaLR(optimizer, [lambda step: 1.0, lambda step: factor**step])


def seen(module: Any, calls: list[str], model: Scripted, *arguments: Any, **options: Any) -> Any:
    """What calls give and leave, the model in evaluation mode between them."""
    CALLS.clear()
    PASSES.clear()
    values, grads = [], []
    for call in calls:
        with torch.enable_grad():
            values.append(getattr(module, call)(model, *arguments, **options))
            grads.append(torch.is_grad_enabled())
        model.eval()
    state = {name: tensor.item() for name, tensor in model.state_dict().items()}
    return {"values": values, "grads": grads, **state, "calls": list(CALLS), "passes": list(PASSES)}
