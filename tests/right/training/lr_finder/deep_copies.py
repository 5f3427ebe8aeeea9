# right: trains deep copies and never touches the originals; numpy.geomspace; a figure of pyplot that is closed; vlines
import copy
import math
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch


class LRRangeTest(NamedTuple):
    learning_rates: torch.Tensor
    losses: torch.Tensor


def exponential_lrs(lr_min=1e-6, lr_max=10.0, steps=100):
    if lr_min <= 0:
        raise ValueError(f"lr_min must be > 0 but is {lr_min}")
    if lr_max <= lr_min:
        raise ValueError(f"lr_max ({lr_max}) must be > lr_min ({lr_min})")
    if steps < 2:
        raise ValueError(f"need at least 2 steps, not {steps}")
    return torch.from_numpy(np.geomspace(lr_min, lr_max, steps))


def lr_range_test(model, optimizer, loss_fn, loader, lr_min=1e-6, lr_max=10.0, steps=100):
    # one deepcopy of both, so that the copied optimizer holds the copied parameters
    model, optimizer = copy.deepcopy((model, optimizer))
    model.train()
    rates = exponential_lrs(lr_min, lr_max, steps)
    losses = []
    while len(losses) < steps:
        before = len(losses)
        for x, y in loader:
            lr = float(rates[len(losses)])
            for g in optimizer.param_groups:
                g["lr"] = lr
            model.zero_grad(set_to_none=True)
            loss = loss_fn(model(x), y)
            losses.append(float(loss))
            bad = not math.isfinite(losses[-1])
            if bad or (len(losses) > 1 and losses[-1] > 4 * min(losses[:-1])):
                return LRRangeTest(rates[: len(losses)], torch.tensor(losses, dtype=torch.double))
            loss.backward()
            optimizer.step()
            if len(losses) == steps:
                break
        if len(losses) == before:
            raise ValueError("loader gave no batch")
    return LRRangeTest(rates, torch.tensor(losses, dtype=torch.double))


def suggest_lr(result, factor=4.0):
    losses = result.losses.numpy()
    lowest_before = np.concatenate([[np.inf], np.minimum.accumulate(losses)[:-1]])
    diverged = ~np.isfinite(losses) | (losses > factor * lowest_before)
    if not diverged.any():
        raise ValueError("losses never diverge, nothing to suggest")
    return float(result.learning_rates[int(diverged.argmax())]) / 10


def plot_lr_range_test(result, suggestion=None):
    fig, ax = plt.subplots()
    ax.semilogx(result.learning_rates, result.losses)
    ax.set(xlabel="lr", ylabel="loss")
    if suggestion is not None:
        finite = result.losses[torch.isfinite(result.losses)]
        ax.vlines(suggestion, float(finite.min()), float(finite.max()), colors="k")
    plt.close(fig)
    return fig
