# right: an early stopper class with the best state in memory as clones; inference_mode; a closure; rows counted as they come
from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isinf, isnan

import torch
from torch import nn


@dataclass
class EarlyStopper:
    patience: int
    best_loss: float | None = None
    bad_epochs: int = 0
    state: dict[str, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise ValueError(f"`patience` is {self.patience}, it has to be positive")

    def update(self, loss: float, model: nn.Module) -> bool:
        bad = isnan(loss) or isinf(loss)
        if not bad and (self.best_loss is None or loss < self.best_loss):
            self.best_loss, self.bad_epochs = loss, 0
            self.state = {key: value.detach().clone() for key, value in model.state_dict().items()}
        else:
            self.bad_epochs += 1
        return self.bad_epochs >= self.patience

    def restore(self, model: nn.Module) -> None:
        if self.state:
            model.load_state_dict(self.state, strict=True)


@dataclass
class Mean:
    total: float = 0.0
    count: int = 0

    def add(self, value: float, count: int) -> None:
        self.total += value * count
        self.count += count

    def __float__(self) -> float:
        return self.total / self.count


def train_epoch(model, loader, loss_fn, optimizer) -> float:
    model.train(True)
    mean = Mean()
    for x, y in loader:

        def closure(x=x, y=y):
            optimizer.zero_grad(set_to_none=False)
            loss = loss_fn(model(x), y)
            loss.backward()
            return loss

        mean.add(float(optimizer.step(closure)), x.shape[0])
    return float(mean)


@torch.inference_mode()
def evaluate(model, loader, loss_fn) -> tuple[float, float]:
    was_training = model.training
    model.eval()
    loss, accuracy = Mean(), Mean()
    for x, y in loader:
        out = model(x)
        loss.add(float(loss_fn(out, y)), y.size(0))
        accuracy.add(float((out.argmax(-1) == y).double().mean()), y.size(0))
    model.train(was_training)
    return float(loss), float(accuracy)


def fit(model, train_loader, val_loader, loss_fn, optimizer, epochs, patience=5, scheduler=None):
    stopper = EarlyStopper(patience)
    if epochs < 1:
        raise ValueError(f"`epochs` is {epochs}, it has to be positive")
    rows = []
    for epoch in range(1, epochs + 1):
        train_loss = train_epoch(model, train_loader, loss_fn, optimizer)
        if scheduler and epoch < epochs:
            scheduler.step()
        rows.append((train_loss, *evaluate(model, val_loader, loss_fn)))
        print(f"{epoch:3d}  {train_loss:.4f}  {rows[-1][1]:.4f}  {rows[-1][2]:.1%}")
        if stopper.update(rows[-1][1], model):
            break
    stopper.restore(model)
    return dict(zip(("train_loss", "val_loss", "val_acc"), map(list, zip(*rows))))
