# right: evaluate returns a NamedTuple; the best state is a blob in memory; a closure; inference_mode as a decorator of a method
from __future__ import annotations
import io, math
from dataclasses import dataclass, field
from typing import NamedTuple
import torch
from torch import nn

class Score(NamedTuple):
    loss: float
    accuracy: float

@dataclass
class Best:
    patience: int
    loss: float = math.inf
    bad: int = 0
    blob: io.BytesIO | None = field(default=None, repr=False)
    def see(self, loss: float, model: nn.Module) -> bool:
        if -math.inf < loss < self.loss:
            self.loss, self.bad = loss, 0
            self.blob = io.BytesIO()
            torch.save(model.state_dict(), self.blob)
        else:
            self.bad += 1
        return self.bad == self.patience
    def restore(self, model: nn.Module) -> None:
        if self.blob is not None:
            self.blob.seek(0)
            model.load_state_dict(torch.load(self.blob, weights_only=True))

class Loop:
    def __init__(self, model, loss_fn, optimizer=None):
        self.model, self.loss_fn, self.optimizer = model, loss_fn, optimizer
    def train(self, loader) -> float:
        self.model.train()
        total, rows = 0.0, 0
        for batch in loader:
            x, y = batch
            def closure():
                self.model.zero_grad(set_to_none=True)
                loss = self.loss_fn(self.model(x), y)
                loss.backward()
                return loss
            loss = self.optimizer.step(closure)
            total += float(loss.detach()) * y.size(0)
            rows += y.size(0)
        return total / rows
    @torch.inference_mode()
    def test(self, loader) -> Score:
        self.model.eval()
        size = len(loader.dataset)
        loss, right = 0.0, 0
        for x, y in loader:
            out = self.model(x)
            loss += self.loss_fn(out, y).item() * x.shape[0] / size
            right += int((out.max(dim=1).indices == y).sum())
        return Score(loss, right / size)

def train_epoch(model, loader, loss_fn, optimizer): return Loop(model, loss_fn, optimizer).train(loader)
def evaluate(model, loader, loss_fn): return Loop(model, loss_fn).test(loader)
def fit(model, train_loader, val_loader, loss_fn, optimizer, epochs, patience=5, scheduler=None):
    for name, value in dict(epochs=epochs, patience=patience).items():
        if value < 1:
            raise ValueError(f"{name} must be positive, not {value}")
    loop, best = Loop(model, loss_fn, optimizer), Best(patience)
    rows = []
    for epoch in range(1, epochs + 1):
        train_loss = loop.train(train_loader)
        if scheduler:
            scheduler.step()
        score = loop.test(val_loader)
        rows.append((train_loss, *score))
        print(f"epoch {epoch}: {rows[-1]}")
        if best.see(score.loss, model):
            break
    best.restore(model)
    model.zero_grad()
    return {name: list(column) for name, column in zip(("train_loss", "val_loss", "val_acc"), zip(*rows))}
