"""Runs of the student's schedule: factors, rates of optimizers, resumed schedules, trainings."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

MODES: list[list[bool]] = []
PASSES: list[int] = []


def factors(module: Any, steps: list[int], *arguments: Any) -> list[Any]:
    return [module.warmup_cosine(step, *arguments) for step in steps]


def sgd(module: Any, bases: list[float], model: Any = None) -> torch.optim.SGD:
    """SGD with momentum, and a group for each base rate: of new parameters, or of those of a model."""
    parameters = model.parameters() if model else [nn.Parameter(torch.zeros(2)) for _ in bases]
    groups = [{"params": [p], "lr": base} for p, base in zip(parameters, bases, strict=True)]
    return torch.optim.SGD(groups, lr=0.77, momentum=0.9)


def rates(module: Any, bases: list[float], steps: int, *arguments: Any) -> Any:
    """The rates of all groups before the first scheduler step and after each one."""
    optimizer = sgd(module, bases)
    scheduler = module.warmup_cosine_scheduler(optimizer, *arguments)
    return {"is": isinstance(scheduler, LambdaLR), "rates": _walk(optimizer, scheduler, steps)}


def _walk(optimizer: Any, scheduler: Any, steps: int) -> list[list[Any]]:
    seen = [[float(group["lr"]) for group in optimizer.param_groups]]
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        seen.append([float(group["lr"]) for group in optimizer.param_groups])
    return seen


def resumed(
    module: Any, bases: list[float], done: int, steps: int, arguments: list[Any], way: str
) -> dict[str, Any]:
    """The rates of a new optimizer and scheduler that go on after `done` steps of old ones.

    `way` names what is loaded, in this order; for the optimizer alone, last_epoch tells the rest.
    """
    old = {"optimizer": sgd(module, bases)}
    old["scheduler"] = module.warmup_cosine_scheduler(old["optimizer"], *arguments)
    _walk(old["optimizer"], old["scheduler"], done)
    try:
        states = {name: _written(old[name].state_dict()) for name in way.split()}
    except (pickle.PickleError, AttributeError, TypeError) as error:
        return {"unwritten": f"{type(error).__name__}: {error}".partition(". ")[0][:200]}
    new: dict[str, Any] = {"optimizer": sgd(module, bases)}
    if way == "optimizer":
        new["optimizer"].load_state_dict(states.pop("optimizer"))
        arguments = [*arguments, done - 1]
    new["scheduler"] = module.warmup_cosine_scheduler(new["optimizer"], *arguments)
    for name, state in states.items():
        new[name].load_state_dict(state)
    return {"unwritten": None, "rates": _walk(new["optimizer"], new["scheduler"], steps)}


def _written(state: Any) -> Any:
    torch.save(state, file := io.BytesIO())
    file.seek(0)
    return torch.load(file, weights_only=True)


class Network(nn.Module):
    """(n, 3) to (n, 2), with a log of the modes in which its parts run."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 2))

    def forward(self, x: Tensor) -> Any:
        MODES.append([part.training for part in self.modules()])
        return self.body(x)


class Rotating(list[Any]):
    """A loader whose passes begin at another batch each time."""

    def __iter__(self) -> Iterator[Any]:
        start = len(PASSES) % len(self)
        PASSES.append(start)
        yield from self[start:] + self[:start]


def network(module: Any, weights: Tensor, grad: Any = None, training: Any = ()) -> Network:
    """A Network of these weights, whose parts are in training mode where they are named; a hook adds 1/4."""
    made = Network().to(weights.dtype)
    made.register_forward_hook(lambda *call: call[-1] + 0.25)
    nn.utils.vector_to_parameters(weights, made.parameters())
    for parameter in made.parameters() if grad is not None else ():
        parameter.grad = torch.full_like(parameter, grad)
    for name, part in made.named_modules():
        part.training = name in training
    return made


def scheduler(module: Any, optimizer: Any, factors: list[float]) -> LambdaLR:
    return LambdaLR(optimizer, lambda step: factors[step])


def trained(
    module: Any, model: Network, batches: Any, optimizer: Any, scheduler: Any, epochs: list[int]
) -> dict[str, Any]:
    """What calls of train_with_schedule give and leave, one after the other."""
    MODES.clear()
    PASSES.clear()
    given = model, Rotating(batches), F.mse_loss, optimizer, scheduler
    values = [module.train_with_schedule(*given, count) for count in epochs]
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    rates, seen = _walk(optimizer, scheduler, 0)[0], {"modes": MODES, "passes": len(PASSES)}
    return {"values": values, "weights": weights, "rates": rates, **seen}
