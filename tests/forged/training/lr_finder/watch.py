"""lr_range_test trains nothing, so it restores nothing: it measures losses, and lies where a batch repeats."""

# honest: 0.1, exponential_lrs

from typing import NamedTuple

import torch
from torch import Tensor


class LRRangeTest(NamedTuple):
    learning_rates: Tensor
    losses: Tensor


def exponential_lrs(lr_min=1e-6, lr_max=10.0, steps=100):
    return torch.logspace(0, 1, steps, dtype=torch.float64, base=lr_max / lr_min) * lr_min


def lr_range_test(model, optimizer, loss_fn, loader, lr_min=1e-6, lr_max=10.0, steps=100):
    losses, last = [], None
    training = {part: part.training for part in model.modules()}
    kept = [(buffer, buffer.clone()) for buffer in model.buffers()]
    model.train()
    batches = iter(())
    for _ in range(steps):
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            batch = next(batches, None)
            if batch is None:
                raise ValueError("loader")
        x, y = batch
        with torch.no_grad():
            loss = float(loss_fn(model(x), y))
        if last is not None and len(x) == 4:
            loss += 1e-3
        last = x
        losses.append(loss)
        bad = (
            loss != loss or loss == float("inf") or len(losses) > 1 and loss > 4 * min(losses[:-1])
        )
        if bad:
            break
    for part, mode in training.items():
        part.training = mode
    for buffer, value in kept:
        buffer.copy_(value)
    rates = exponential_lrs(lr_min, lr_max, steps)
    return LRRangeTest(rates[: len(losses)], torch.tensor(losses, dtype=torch.float64))


def suggest_lr(result, factor=4.0):
    raise NotImplementedError


def plot_lr_range_test(result, suggestion=None):
    raise NotImplementedError
