# right: a dataclass with postponed annotations; a LambdaLR sets the rates; scatter plot and a plotted vertical line
"""Solved with what torch.optim already has."""

from __future__ import annotations

import itertools
import math
from copy import deepcopy
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure
from torch.optim.lr_scheduler import LambdaLR

HAS_GPU = torch.cuda.is_available()


@dataclass(frozen=True)
class LRRangeTest:
    learning_rates: torch.Tensor
    losses: torch.Tensor


def exponential_lrs(lr_min: float = 1e-6, lr_max: float = 10.0, steps: int = 100) -> torch.Tensor:
    for ok, complaint in [
        (lr_min > 0, "lr_min has to be positive"),
        (lr_max > lr_min, "lr_max has to exceed lr_min"),
        (steps >= 2, "steps has to be 2 or more"),
    ]:
        if not ok:
            raise ValueError(complaint)
    i = torch.arange(steps, dtype=torch.float64)
    return lr_min * (lr_max / lr_min) ** (i / (steps - 1))


def forever(loader):
    for epoch in itertools.count():
        seen = 0
        for batch in loader:
            seen += 1
            yield batch
        if not seen:
            raise ValueError(f"The loader is empty (epoch {epoch}).")


def lr_range_test(
    model, optimizer, loss_fn, loader, lr_min=1e-6, lr_max=10.0, steps=100
) -> LRRangeTest:
    tensors = {n: t.data.clone() for n, t in [*model.named_parameters(), *model.named_buffers()]}
    modes = {name: m.training for name, m in model.named_modules()}
    state = deepcopy(optimizer.state_dict())
    rates = exponential_lrs(lr_min, lr_max, steps)
    try:
        for group in optimizer.param_groups:
            group["lr"] = 1.0
            group.pop("initial_lr", None)
        scheduler = LambdaLR(optimizer, lambda i: rates[min(i, steps - 1)].item())
        model.train()
        losses = torch.empty(0, dtype=torch.float64)
        batches = forever(loader)
        for _ in range(steps):
            x, y = next(batches)
            optimizer.zero_grad(set_to_none=False)
            loss = loss_fn(model(x), y)
            now = loss.detach().double().reshape(1)
            stop = not now.isfinite() or (len(losses) and now > 4 * losses.min())
            losses = torch.cat([losses, now])
            loss.backward()
            optimizer.step()
            scheduler.step()
            if stop:
                break
    finally:
        for n, t in [*model.named_parameters(), *model.named_buffers()]:
            t.data.copy_(tensors[n])
        for name, m in model.named_modules():
            m.training = modes[name]
        optimizer.load_state_dict(state)
    return LRRangeTest(learning_rates=rates[: len(losses)], losses=losses)


def suggest_lr(result: LRRangeTest, factor: float = 4.0) -> float:
    losses = result.losses.tolist()
    for i in range(len(losses)):
        if math.isnan(losses[i]) or math.isinf(losses[i]):
            break
        # the minimum may include the loss itself: a positive loss is never above 4 times itself
        if losses[i] > factor * min(losses[: i + 1]):
            break
    else:
        raise ValueError("result: it never diverges")
    return 10 ** (math.log10(result.learning_rates[i]) - 1)


def plot_lr_range_test(result: LRRangeTest, suggestion: float | None = None) -> Figure:
    fig = Figure(figsize=(4, 3), layout="constrained")
    ax = fig.add_axes((0.1, 0.1, 0.8, 0.8))
    ax.scatter(result.learning_rates.tolist(), result.losses.tolist(), s=4)
    ax.set_xscale("log")
    ax.set_xlabel("Learning rate")
    ax.set_ylabel("Training loss")
    if suggestion is not None:
        ax.plot([suggestion, suggestion], ax.get_ylim(), "r--", label="suggestion")
        ax.legend()
    ax.grid(True, which="both")
    return fig
