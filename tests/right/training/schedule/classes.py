# right: a class for the schedule, a subclass of LambdaLR that computes its rates itself
"""The schedule as an object, whose state is plain data."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi

import torch
from torch.optim.lr_scheduler import LambdaLR


@dataclass
class Schedule:
    total_steps: int
    warmup_steps: int = 0
    min_factor: float = 0.0

    def __post_init__(self) -> None:
        if self.total_steps <= 0:
            raise ValueError(f"`total_steps` is {self.total_steps}")
        if self.warmup_steps not in range(self.total_steps + 1):
            raise ValueError(f"`warmup_steps` is {self.warmup_steps}")
        if self.min_factor < 0.0 or 1.0 < self.min_factor:
            raise ValueError(f"`min_factor` is {self.min_factor}")

    def __call__(self, step: int) -> float:
        if step < 0:
            raise ValueError(f"`step` is {step}")
        if step in range(self.warmup_steps):
            return float(step + 1) / float(self.warmup_steps)
        length = max(self.total_steps - self.warmup_steps, 1)
        progress = min(step - self.warmup_steps, length) / length
        if self.warmup_steps == self.total_steps:
            progress = 1.0
        return 1.0 - (1.0 - self.min_factor) * (0.5 - 0.5 * cos(pi * progress))


def warmup_cosine(
    step: int, total_steps: int, warmup_steps: int = 0, min_factor: float = 0.0
) -> float:
    return Schedule(total_steps, warmup_steps, min_factor)(step)


class WarmupCosine(LambdaLR):
    def __init__(
        self, optimizer: torch.optim.Optimizer, schedule: Schedule, last_epoch: int
    ) -> None:
        self.settings = [schedule.total_steps, schedule.warmup_steps, schedule.min_factor]
        super().__init__(optimizer, schedule, last_epoch)

    def get_lr(self) -> list[float]:
        factor = Schedule(*self.settings)(self.last_epoch)
        return [factor * base for base in self.base_lrs]


def warmup_cosine_scheduler(
    optimizer: torch.optim.Optimizer,
    total_steps: int,
    warmup_steps: int = 0,
    min_factor: float = 0.0,
    last_epoch: int = -1,
) -> LambdaLR:
    return WarmupCosine(optimizer, Schedule(total_steps, warmup_steps, min_factor), last_epoch)


class Trainer:
    def __init__(self, model, loss_fn, optimizer, scheduler):
        self.model, self.loss_fn = model, loss_fn
        self.optimizer, self.scheduler = optimizer, scheduler
        self.rates: list[float] = []

    def batch(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        self.model.train()
        self.loss_fn(self.model(inputs), targets).backward()
        self.rates.extend(self.scheduler.get_last_lr()[:1])
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        self.scheduler.step()


def train_with_schedule(model, loader, loss_fn, optimizer, scheduler, epochs):
    if epochs <= 0:
        raise ValueError(f"`epochs` is {epochs}")
    trainer = Trainer(model, loss_fn, optimizer, scheduler)
    optimizer.zero_grad()
    for _ in range(epochs):
        for inputs, targets in loader:
            trainer.batch(inputs, targets)
    model.eval()
    return trainer.rates
