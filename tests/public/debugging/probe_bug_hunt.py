"""Sorted data, a small model, and reports on functions that use them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader


def order(module: Any, count: int) -> list[Any]:
    """The samples in a pass over the training loader. Each sample is its own features and label."""
    data = [(torch.tensor([float(i)]), i) for i in range(count)]
    training, _ = module.make_loaders(data, data, 2, 1)
    return [label for _, labels in training for label in labels.tolist()]


def rates(module: Any) -> list[float]:
    return [float(group["lr"]) for group in module.make_optimizer(nn.Linear(2, 1)).param_groups]


def steps(module: Any, samples: Any) -> Tensor:
    """The weight after an epoch of SGD with rate 0.5, from a weight of 1."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    sgd = torch.optim.SGD(model.parameters(), lr=0.5)
    module.train_epoch(model, DataLoader(samples), nn.functional.mse_loss, sgd)
    return model.weight.detach()


def evaluations(module: Any, rows: int) -> list[Any]:
    """Two evaluations of a model that is always right, except for its dropout."""
    model = nn.Sequential(nn.Identity(), nn.Dropout(0.5))
    targets = torch.arange(rows) % 4
    samples: Any = list(zip(nn.functional.one_hot(targets, 4).float(), targets, strict=True))
    loader, loss_fn = DataLoader(samples, batch_size=rows), nn.functional.cross_entropy
    results = [module.evaluate(model.train(), loader, loss_fn) for _ in range(2)]
    return [tuple(pair) if isinstance(pair, tuple) else pair for pair in results]
