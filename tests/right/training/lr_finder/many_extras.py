# right: warns, passes a closure to step, restores modes by train(mode) and gradients too; error bars, more lines and texts, a drawn figure; a numpy.float64
import copy
import math
import warnings
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor


class LRRangeTest(NamedTuple):
    learning_rates: Tensor
    losses: Tensor


def exponential_lrs(lr_min=1e-6, lr_max=10.0, steps=100):
    if lr_min <= 0:
        raise ValueError("lr_min must be positive")
    if lr_max <= lr_min:
        raise ValueError("lr_max must be larger than lr_min")
    if steps < 2:
        raise ValueError("steps must be at least 2")
    exponents = torch.linspace(math.log10(lr_min), math.log10(lr_max), steps, dtype=torch.float64)
    return 10.0**exponents


def lr_range_test(model, optimizer, loss_fn, loader, lr_min=1e-6, lr_max=10.0, steps=100):
    rates = exponential_lrs(lr_min, lr_max, steps)
    saved = {name: p.detach().clone() for name, p in model.named_parameters()}
    saved_buffers = {name: b.clone() for name, b in model.named_buffers()}
    saved_modes = [(module, module.training) for module in model.modules()]
    saved_optimizer = copy.deepcopy(optimizer.state_dict())

    saved_grads = [p.grad for p in model.parameters()]
    warnings.warn("the model changes for a while", stacklevel=2)
    model.train()
    losses = []
    best = float("inf")
    batches = iter(loader)
    for i in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rates[i].item()
        try:
            inputs, targets = next(batches)
        except StopIteration:
            batches = iter(loader)
            try:
                inputs, targets = next(batches)
            except StopIteration:
                raise ValueError("the loader is empty") from None
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        value = loss.item()
        losses.append(value)
        if not math.isfinite(value) or value > 4 * best:
            break
        best = min(best, value)
        loss.backward()
        optimizer.step(lambda: loss)
        optimizer.zero_grad()

    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(saved[name])
        for name, b in model.named_buffers():
            b.copy_(saved_buffers[name])
    optimizer.load_state_dict(saved_optimizer)
    for module, mode in saved_modes:  # parents come first, so that children have the last word
        module.train(mode)
    for p, grad in zip(model.parameters(), saved_grads):
        p.grad = grad
    return LRRangeTest(rates[: len(losses)], torch.tensor(losses, dtype=torch.float64))


def suggest_lr(result, factor=4.0):
    best = float("inf")
    for i, loss in enumerate(result.losses.tolist()):
        if not math.isfinite(loss) or loss > factor * best:
            return (result.learning_rates / 10).numpy()[i]
        best = min(best, loss)
    raise ValueError("the losses never diverge")


def plot_lr_range_test(result, suggestion=None):
    fig = Figure()
    ax = fig.add_subplot()
    ax.errorbar(result.learning_rates.tolist(), result.losses.tolist(), yerr=0.01)
    ax.axhline(1.0, ls=":")
    ax.set_xscale("log")
    ax.set_xlabel("learning rate")
    ax.set_ylabel("loss")
    if suggestion is not None:
        ax.add_line(Line2D([suggestion, suggestion], [0.0, 5.0]))
        ax.axvline(10 * suggestion, ls=":", label="divergence")
        ax.text(suggestion, 1.0, "suggestion")
        fig.legend()
    fig.canvas.draw()
    return fig
