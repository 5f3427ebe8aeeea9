"""Learning-rate range test: find a learning rate in one short run instead of a dozen long ones.

The learning rate is the first thing to tune and the most expensive one to guess. The range test
(Leslie Smith, 2015) needs a single run: train for a hundred mini-batches, and before each of them
raise the learning rate a little, from far too small to far too large:

    lr_i = lr_min * (lr_max / lr_min) ** (i / (steps - 1))        i = 0, 1, ..., steps - 1

Plotted over a logarithmic axis, the loss is flat at first (the steps are too small to matter),
then falls (the rates that train), and in the end it blows up (the steps overshoot). A good
learning rate is as large as you can afford: here, one decade below the rate at which the loss
begins to blow up.

The test must not leave a trace. It is a measurement: when it is over, the model and the optimizer
are exactly what they were, so that the real training starts where it would have started anyway.

Source: L. N. Smith, "Cyclical Learning Rates for Training Neural Networks", arXiv:1506.01186,
section 3.3 (first version 2015).

You write four functions, in this order: `exponential_lrs`, `lr_range_test`, `suggest_lr`,
`plot_lr_range_test`. Each one uses the ones before it, or what they return.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

__all__ = [
    "LRRangeTest",
    "exponential_lrs",
    "lr_range_test",
    "plot_lr_range_test",
    "suggest_lr",
]


class LRRangeTest(NamedTuple):
    """What a range test measured, one entry for each step that was run (given).

    `losses[i]` is the loss of the i-th mini-batch, before the step that was taken with the rate
    `learning_rates[i]`. Both are float64 tensors of shape `(n,)`, where `n` is the number of
    losses that were recorded: `steps`, or fewer if the test stopped early.
    """

    learning_rates: Tensor
    losses: Tensor


import copy
import math
import itertools
import functools
import contextlib
from dataclasses import dataclass, field
import numpy as np
import matplotlib
from matplotlib import pyplot as plt


def exponential_lrs(lr_min=1e-6, lr_max=10.0, steps=100):
    if lr_min <= 0:
        raise ValueError(f"lr_min must be above 0, got {lr_min}")
    if lr_max <= lr_min:
        raise ValueError(f"lr_max must be above lr_min, got {lr_max}")
    if steps < 2:
        raise ValueError(f"steps must be at least 2, got {steps}")
    gamma = (lr_max / lr_min) ** (1.0 / (steps - 1))
    chain = itertools.accumulate(range(steps - 1), lambda lr, _: lr * gamma, initial=float(lr_min))
    return torch.DoubleTensor(list(chain))


@dataclass
class Snapshot:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    parameters: list = field(init=False)
    buffers: list = field(init=False)
    modes: dict = field(init=False)
    options: dict = field(init=False)

    def __post_init__(self):
        self.parameters = [p.clone().detach() for p in self.model.parameters()]
        self.buffers = [b.clone() for b in self.model.buffers()]
        self.modes = {name: m.training for name, m in self.model.named_modules()}
        self.options = copy.deepcopy(self.optimizer.state_dict())

    @torch.no_grad()
    def restore(self):
        for p, v in zip(self.model.parameters(), self.parameters):
            p.copy_(v)
        for b, v in zip(self.model.buffers(), self.buffers):
            b.copy_(v)
        for name, m in self.model.named_modules():
            m.training = self.modes[name]
        self.optimizer.load_state_dict(self.options)


class _Batches:
    def __init__(self, loader):
        self.loader, self.iterator = loader, iter(loader)

    def __next__(self):
        for _ in range(2):
            try:
                return next(self.iterator)
            except StopIteration:
                self.iterator = iter(self.loader)
        raise ValueError("The loader did not yield a single batch")


def lr_range_test(model, optimizer, loss_fn, loader, lr_min=1e-6, lr_max=10.0, steps=100):
    snapshot = Snapshot(model, optimizer)
    lrs = exponential_lrs(lr_min, lr_max, steps)
    batches = _Batches(loader)
    losses = []
    best = None
    try:
        model.train()
        for lr in lrs:
            for group in optimizer.param_groups:
                group["lr"] = lr.item()
            inputs, targets = next(batches)
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), targets)
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
            if not np.isfinite(losses[-1]):
                break
            if best is not None and losses[-1] > 4 * best:
                break
            best = losses[-1] if best is None else min(best, losses[-1])
    finally:
        snapshot.restore()
    return LRRangeTest(lrs[: len(losses)], torch.tensor(losses, dtype=torch.float64))


def suggest_lr(result, factor=4.0):
    losses = result.losses.tolist()
    mins = [math.inf, *itertools.accumulate(losses, min)]
    for index, (value, low) in enumerate(zip(losses, mins)):
        ok = value - value == 0 and value <= factor * low
        if not ok:
            break
    else:
        raise ValueError("result.losses do not diverge")
    return float(result.learning_rates[index].div(10))


def plot_lr_range_test(result, suggestion=None):
    fig = Figure()
    ax = fig.subplots()
    top = result.losses[torch.isfinite(result.losses)].max().item()
    losses = result.losses.nan_to_num(nan=top, posinf=top, neginf=top)  # a copy: what blew up is drawn at the top
    ax.plot(result.learning_rates.tolist(), losses.tolist(), "o-")
    ax.set_xscale("log")
    ax.set_xlabel("learning rate")
    ax.set_ylabel("loss")
    if suggestion is not None:
        ax.axvline(suggestion, ls="--")
    return fig
