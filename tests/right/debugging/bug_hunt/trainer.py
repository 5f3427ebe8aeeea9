# right: a trainer in classes, a named tuple of results, a sampler of batches by numpy, two groups of AdamW
from __future__ import annotations

import copy
import dataclasses
from collections import defaultdict
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Sampler, SequentialSampler

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Score(NamedTuple):
    loss: float
    accuracy: float


class ShuffledBatches(Sampler):
    """Batches of a fresh permutation of each pass; drops the short one."""

    def __init__(self, size, batch_size, seed):
        self.size, self.batch_size, self.seed, self.passes = size, batch_size, seed, 0

    def __len__(self):
        return max(1, self.size // self.batch_size)

    def __iter__(self):
        rng = np.random.default_rng([self.seed, self.passes])
        self.passes += 1
        order = rng.permutation(self.size)
        for i in range(len(self)):
            yield order[i * self.batch_size : (i + 1) * self.batch_size].tolist()


@dataclasses.dataclass
class Mean:
    total: float = 0.0
    weight: int = 0

    def add(self, value, weight=1):
        self.total += float(value) * weight
        self.weight += weight

    @property
    def value(self):
        return self.total / self.weight


@contextmanager
def evaluating(model):
    modes = {m: m.training for m in model.modules()}
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    model.eval()
    try:
        yield model
    finally:
        torch.set_grad_enabled(before)
        for m, mode in modes.items():
            m.training = mode


class Trainer:
    def __init__(self, model, loss_fn, optimizer=None):
        self.model, self.loss_fn, self.optimizer = model, loss_fn, optimizer

    def step(self, inputs, targets):
        def closure():
            self.optimizer.zero_grad()
            loss = self.loss_fn(self.model(inputs), targets)
            loss.backward()
            return loss

        return self.optimizer.step(closure)

    def epoch(self, loader):
        self.model.train()
        mean = Mean()
        for inputs, targets in loader:
            mean.add(self.step(inputs, targets).detach())
        return mean.value

    def score(self, loader) -> Score:
        loss, hits = Mean(), Mean()
        with evaluating(self.model):
            for inputs, targets in loader:
                logits = self.model(inputs)
                loss.add(self.loss_fn(logits, targets), len(targets))
                hits.add((logits.topk(1).indices.squeeze(1) == targets).double().mean(), len(targets))
        return Score(loss.value, hits.value)


def make_loaders(train, validation, batch_size=32, seed=0):
    return (
        DataLoader(train, batch_sampler=ShuffledBatches(len(train), batch_size, seed)),
        DataLoader(validation, batch_sampler=BatchSampler(SequentialSampler(validation), 7, False)),
    )


def make_optimizer(model):
    decay = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    rest = [p for p in model.parameters() if p.requires_grad and p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": 0.01, "lr": 1e-4}, {"params": rest, "lr": 0.1}]
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=0.003, weight_decay=0.0)


class _Loss(nn.Module):
    def forward(self, logits, targets):
        return -torch.distributions.Categorical(logits=logits).log_prob(targets).mean()


def classification_loss(logits, targets):
    return _Loss()(logits, targets)


def train_epoch(model, loader, loss_fn, optimizer):
    return Trainer(model, loss_fn, optimizer).epoch(loader)


def evaluate(model, loader, loss_fn):
    return Trainer(model, loss_fn).score(loader)


def fit(model, train, validation, epochs=5, batch_size=32, seed=0):
    training, validating = make_loaders(train, validation, batch_size, seed)
    trainer = Trainer(model, classification_loss, make_optimizer(model))
    history = defaultdict(list)
    for epoch in range(epochs):
        history["train_loss"].append(trainer.epoch(training))
        score = trainer.score(validating)
        history["validation_loss"].append(score.loss)
        history["accuracy"].append(score.accuracy)
        print(f"epoch {epoch}: {score}")
    return history


if __name__ == "__main__":
    print(DEVICE)
