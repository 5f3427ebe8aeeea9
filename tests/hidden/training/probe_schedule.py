"""Reports on schedules: factors, rates of optimizers, resumed schedules, trainings."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

Rates = list[list[float]]

# Global, so that copies of a network report here as well.
MODES: list[list[bool]] = []


# --- schedules -----------------------------------------------------------------------------------


# A schedule is a list of arguments, those after the step or the optimizer: total_steps and perhaps more.


def factors(module: Any, schedule: Any, steps: list[int]) -> list[Any]:
    """The factors at these steps. Another test judges whether they are Python numbers."""
    found = [module.warmup_cosine(step, *schedule) for step in steps]
    return [factor.item() if isinstance(factor, Tensor) else factor for factor in found]


def optimizer(module: Any, bases: list[float]) -> torch.optim.SGD:
    """SGD with a group for each of these base rates."""
    groups = [{"params": [nn.Parameter(torch.zeros(2))], "lr": base} for base in bases]
    return torch.optim.SGD(groups, lr=0.77, momentum=0.9)


def rates(module: Any, schedule: Any, bases: list[float], steps: int) -> dict[str, Any]:
    """The rates of all groups before the first step of the scheduler and after each step."""
    made = optimizer(module, bases)
    scheduler = module.warmup_cosine_scheduler(made, *schedule)
    return {"is LambdaLR": isinstance(scheduler, LambdaLR), "rates": walk(made, scheduler, steps)}


def resumed_from_state_dicts(
    module: Any, schedule: Any, bases: list[float], done: int, steps: int
) -> Rates:
    """The rates of a new optimizer and scheduler that load both state dicts of old ones."""
    old, new = optimizer(module, bases), optimizer(module, bases)
    old_scheduler = module.warmup_cosine_scheduler(old, *schedule)
    walk(old, old_scheduler, done)
    new_scheduler = module.warmup_cosine_scheduler(new, *schedule)
    new.load_state_dict(read_again(old.state_dict()))
    new_scheduler.load_state_dict(read_again(old_scheduler.state_dict()))
    return walk(new, new_scheduler, steps)


def resumed_by_last_epoch(
    module: Any, schedule: Any, bases: list[float], done: int, steps: int
) -> Rates:
    """The rates of a new scheduler with `last_epoch` and an optimizer that loads the old one's state."""
    old, new = optimizer(module, bases), optimizer(module, bases)
    old_scheduler = module.warmup_cosine_scheduler(old, *schedule)
    walk(old, old_scheduler, done)
    new.load_state_dict(read_again(old.state_dict()))
    new_scheduler = module.warmup_cosine_scheduler(new, *schedule, last_epoch=done - 1)
    return walk(new, new_scheduler, steps)


def walk(optimizer: Optimizer, scheduler: LambdaLR, steps: int) -> Rates:
    """Make `steps` steps of both, and return the rates before the first step and after each."""
    seen = [rates_of(optimizer)]
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        seen.append(rates_of(optimizer))
    return seen


def rates_of(optimizer: Optimizer) -> list[float]:
    return [float(group["lr"]) for group in optimizer.param_groups]


def read_again(state: Any) -> Any:
    """Write a state dict to a file, and read it back."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


# --- training ------------------------------------------------------------------------------------


class Network(nn.Module):
    """A network from (n, 3) to (n, 2) that logs the modes of its three modules in MODES at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 2))

    def forward(self, x: Tensor) -> Any:
        MODES.append([part.training for part in self.modules()])
        return self.body(x)


def add_a_quarter(network: nn.Module, inputs: Any, outputs: Tensor) -> Tensor:
    return outputs + 0.25


def network(module: Any, seed: int, training: list[str]) -> Network:
    """A network with old gradients and a hook; the modules in `training` are in train mode."""
    torch.default_generator.manual_seed(seed)
    made = Network()
    made.register_forward_hook(add_a_quarter)
    for parameter in made.parameters():
        parameter.grad = torch.full_like(parameter, 50.0)
    for name, part in made.named_modules():
        part.training = name in training
    return made


def sgd(module: Any, model: Network) -> torch.optim.SGD:
    """SGD with a group for the weight and one for the bias."""
    weight, bias = model.parameters()
    groups = [{"params": [weight], "lr": 0.08}, {"params": [bias], "lr": 0.05}]
    return torch.optim.SGD(groups, momentum=0.9)


def scheduler(module: Any, optimizer: Optimizer, factors: list[float]) -> LambdaLR:
    return LambdaLR(optimizer, lambda step: factors[step])


def loss(module: Any) -> Any:
    return F.mse_loss


class Rotating(list[Any]):
    """A loader that begins each pass at another batch."""

    begun = 0

    def __iter__(self) -> Iterator[Any]:
        first = self.begun % len(self)
        self.begun += 1
        return iter(self[first:] + self[:first])


def trained(
    module: Any,
    model: Network,
    batches: list[Any],
    optimizer: Optimizer,
    scheduler: LambdaLR,
    epochs: list[int],
) -> dict[str, Any]:
    """The results of successive calls of train_with_schedule, and the state after them."""
    MODES.clear()
    given = (model, Rotating(batches), F.mse_loss, optimizer, scheduler)
    values = [module.train_with_schedule(*given, count) for count in epochs]
    return {
        "values": values,
        "parameters": [parameter.detach() for parameter in model.parameters()],
        "rates": rates_of(optimizer),
        "modes": list(MODES),
    }
