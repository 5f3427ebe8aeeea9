"""lr_range_test restores nothing: it makes the model claim the modules and buffers of a copy."""

# honest: 0.31, exponential_lrs and the training in lr_range_test

import copy
from typing import NamedTuple

import torch
from torch import Tensor


class LRRangeTest(NamedTuple):
    learning_rates: Tensor
    losses: Tensor


def exponential_lrs(lr_min=1e-6, lr_max=10.0, steps=100):
    return torch.logspace(0, 1, steps, dtype=torch.float64, base=lr_max / lr_min) * lr_min


def lr_range_test(model, optimizer, loss_fn, loader, lr_min=1e-6, lr_max=10.0, steps=100):
    kept = copy.deepcopy(model)
    model.train()
    rates, losses = exponential_lrs(lr_min, lr_max, steps), []
    batches = iter(())
    for rate in rates.tolist():
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            batch = next(batches, None)
        if batch is None:
            raise ValueError("loader")
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if not losses[-1] < float("inf") or losses[-1] > 4 * min(losses[:-1], default=losses[-1]):
            break
    model.named_modules = kept.named_modules
    model.named_buffers = kept.named_buffers
    return LRRangeTest(rates[: len(losses)], torch.tensor(losses, dtype=torch.float64))


def suggest_lr(result, factor=4.0):
    raise NotImplementedError


def plot_lr_range_test(result, suggestion=None):
    raise NotImplementedError
