# right: nested loops over epochs, functools, losses in a preallocated tensor, the given optimizer restored key by key, two curves
"""Learning-rate range test."""

import copy
import functools
import math
import typing

import matplotlib.figure
import torch


class LRRangeTest(typing.NamedTuple):
    learning_rates: torch.Tensor
    losses: torch.Tensor

    def __repr__(self):
        return f"LRRangeTest of {len(self.losses)} steps"


def _positive(name, value):
    if value <= 0:
        raise ValueError(f"{name} must be greater than zero, got {value!r}")


def exponential_lrs(lr_min=1e-6, lr_max=10.0, steps=100):
    """Geometric sequence."""
    _positive("lr_min", lr_min)
    _positive("lr_max - lr_min", lr_max - lr_min)
    _positive("steps - 1", steps - 1)
    q = (lr_max / lr_min) ** (1 / (steps - 1))
    return torch.tensor([lr_min * q**k for k in range(steps)], dtype=torch.float64)


class _Stop(Exception):
    pass


def lr_range_test(model, optimizer, loss_fn, loader, lr_min=1e-6, lr_max=10.0, steps=100):
    """Run the test; everything is put back in a finally clause."""
    lrs = exponential_lrs(lr_min, lr_max, steps)
    losses = torch.zeros(steps, dtype=torch.float64)
    parameters = {k: v.detach().clone() for k, v in model.named_parameters()}
    buffers = {k: v.detach().clone() for k, v in model.named_buffers()}
    training = {id(m): m.training for m in model.modules()}
    optimizer_before = copy.deepcopy(optimizer.state_dict())
    done = 0
    try:
        model.train()
        while True:
            n = 0
            for inputs, targets in loader:
                n += 1
                for group in optimizer.param_groups:
                    group["lr"] = lrs[done].item()
                optimizer.zero_grad()
                loss = loss_fn(model(inputs), targets)
                losses[done] = loss.item()
                done += 1
                lowest = functools.reduce(min, losses[: done - 1].tolist(), math.inf)
                if not torch.isfinite(losses[done - 1]).item() or losses[done - 1] > 4 * lowest:
                    raise _Stop
                loss.backward()
                optimizer.step()
                if done == steps:
                    raise _Stop
            if n == 0:
                raise ValueError("no batches in the loader")
    except _Stop:
        pass
    finally:
        with torch.no_grad():
            for k, v in model.named_parameters():
                v.copy_(parameters[k])
            for k, v in model.named_buffers():
                v.copy_(buffers[k])
        for m in model.modules():
            m.training = training[id(m)]
        optimizer.load_state_dict(optimizer_before)
    return LRRangeTest(lrs[:done], losses[:done])


def suggest_lr(result, factor=4.0):
    """One decade below the divergence."""
    n = result.losses.shape[0]
    for i in range(n):
        head = result.losses[:i]
        here = result.losses[i]
        if torch.isnan(here) or torch.isinf(here) or (i > 0 and bool(here > factor * head.min())):
            return float(result.learning_rates[i] / 10)
    raise ValueError("the losses of the result never diverge")


def plot_lr_range_test(result, suggestion=None):
    """One curve, one optional line."""
    figure = matplotlib.figure.Figure()
    axes = figure.gca()
    axes.plot(result.learning_rates.numpy(), result.losses.numpy(), "k-", lw=1)
    axes.plot(result.learning_rates.numpy(), result.losses.numpy(), "k.", ms=3)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("learning rate")
    axes.set_ylabel("loss")
    if suggestion is None:
        return figure
    bottom, top = axes.get_ylim()
    axes.vlines([suggestion], bottom, top)
    axes.set_title(f"suggestion: {suggestion:.3g}")
    return figure
