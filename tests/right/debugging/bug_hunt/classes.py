# right: a sampler and a trainer as classes, AdamW with groups, inference_mode, gradients cleared after the step
from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler


class Shuffled(Sampler):
    """Another permutation in each pass, by seed and pass alone."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed, self.number = count, seed, 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.number)
        self.number += 1
        yield from torch.randperm(self.count, generator=generator).tolist()


class Mean:
    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def add(self, value: float, weight: int = 1) -> None:
        self.total += value * weight
        self.count += weight

    def __float__(self) -> float:
        return self.total / self.count


def make_loaders(train, validation, batch_size=32, seed=0):
    training = DataLoader(train, batch_size=batch_size, sampler=Shuffled(len(train), seed))
    return training, DataLoader(validation, batch_size=2 * batch_size, shuffle=False)


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    trained = [p for p in model.parameters() if p.requires_grad]
    weights, others = [p for p in trained if p.dim() > 1], [p for p in trained if p.dim() < 2]
    groups = [{"params": weights, "weight_decay": 0.01}, {"params": others, "lr": 1e-4}]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=0.003)


classification_loss = nn.CrossEntropyLoss()


def train_epoch(model, loader, loss_fn, optimizer) -> float:
    mean = Mean()
    for inputs, targets in loader:
        model.train()
        outputs = model(inputs)
        loss = loss_fn(outputs, targets)
        loss.backward()
        optimizer.step()
        model.zero_grad(set_to_none=True)
        mean.add(loss.detach().item(), inputs.shape[0])
    return float(mean)


@torch.inference_mode()
def evaluate(model, loader, loss_fn):
    loss, accuracy = Mean(), Mean()
    was = model.training
    model.train(False)
    for inputs, targets in loader:
        outputs = model(inputs)
        loss.add(loss_fn(outputs, targets).item())
        accuracy.add((outputs.max(1).indices == targets).float().mean().item(), len(inputs))
    model.train(was)
    return float(loss), round(accuracy.total) / accuracy.count


def fit(model, train, validation, epochs=5, batch_size=32, seed=0):
    torch.manual_seed(seed)
    optimizer = make_optimizer(model)
    training, validating = make_loaders(train, validation, batch_size=batch_size, seed=seed)
    rows = []
    for _ in range(epochs):
        loss = train_epoch(model, training, classification_loss, optimizer)
        rows.append((loss, *evaluate(model, validating, classification_loss)))
    columns = zip(*rows)
    return dict(zip(("train_loss", "validation_loss", "accuracy"), map(list, columns)))
