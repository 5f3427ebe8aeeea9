# wrong: the plot replaces what is not finite in the result's own losses | caught by: test_plot_curve | told: changed losses
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


def exponential_lrs(lr_min: float = 1e-6, lr_max: float = 10.0, steps: int = 100) -> Tensor:
    if lr_min <= 0:
        raise ValueError(f"lr_min must be above 0, got {lr_min}")
    if lr_max <= lr_min:
        raise ValueError(f"lr_max must be above lr_min, got {lr_max}")
    if steps < 2:
        raise ValueError(f"steps must be at least 2, got {steps}")
    return torch.logspace(math.log10(lr_min), math.log10(lr_max), steps, dtype=torch.float64)


def lr_range_test(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    loader: Iterable[tuple[Tensor, Tensor]],
    lr_min: float = 1e-6,
    lr_max: float = 10.0,
    steps: int = 100,
) -> LRRangeTest:
    rates = exponential_lrs(lr_min, lr_max, steps)
    params = [(p, p.detach().clone()) for p in model.parameters()]
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    modes = [(m, m.training) for m in model.modules()]
    saved = copy.deepcopy(optimizer.state_dict())
    losses: list[float] = []
    lowest = math.inf
    batches = iter(loader)
    model.train()
    try:
        for rate in rates.tolist():
            for group in optimizer.param_groups:
                group["lr"] = rate
            try:
                inputs, targets = next(batches)
            except StopIteration:
                batches = iter(loader)
                try:
                    inputs, targets = next(batches)
                except StopIteration:
                    raise ValueError("loader yields nothing") from None
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), targets)
            value = loss.item()
            losses.append(value)
            if not math.isfinite(value) or value > 4 * lowest:
                break
            lowest = min(lowest, value)
            loss.backward()
            optimizer.step()
    finally:
        with torch.no_grad():
            for p, v in params:
                p.copy_(v)
            for b, v in buffers:
                b.copy_(v)
        for m, mode in modes:
            m.training = mode
        optimizer.load_state_dict(saved)
    n = len(losses)
    return LRRangeTest(rates[:n], torch.tensor(losses, dtype=torch.float64))


def suggest_lr(result: LRRangeTest, factor: float = 4.0) -> float:
    best = math.inf
    for lr, loss in zip(result.learning_rates.tolist(), result.losses.tolist()):
        if not math.isfinite(loss) or loss > factor * best:
            return lr / 10
        best = min(best, loss)
    raise ValueError("the losses of result never diverge")


def plot_lr_range_test(result: LRRangeTest, suggestion: float | None = None) -> Figure:
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    axes.plot(result.learning_rates.numpy(), result.losses.nan_to_num_(0.0).numpy())
    axes.set_xscale("log")
    axes.set_xlabel("learning rate")
    axes.set_ylabel("loss")
    if suggestion is not None:
        axes.axvline(suggestion, color="red", linestyle="--", label=f"suggestion {suggestion:.2g}")
        axes.legend()
    return figure
