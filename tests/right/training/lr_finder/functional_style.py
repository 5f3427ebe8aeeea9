# right: generators all the way, islice, a context manager over deep-copied state dicts; the rates are kept as tensors in the groups
from __future__ import annotations

import copy
import typing as t
from contextlib import contextmanager
from itertools import accumulate, chain, islice, repeat
from math import inf, isfinite, log10

import torch as th
from matplotlib import pyplot
from torch import nn

LRRangeTest = t.NamedTuple("LRRangeTest", [("learning_rates", th.Tensor), ("losses", th.Tensor)])
LIMIT = 4


def exponential_lrs(lr_min: float = 1e-6, lr_max: float = 10.0, steps: int = 100) -> th.Tensor:
    if not lr_min > 0:
        raise ValueError("`lr_min` must be > 0")
    if not lr_max > lr_min:
        raise ValueError("`lr_max` must be > `lr_min`")
    if not steps >= 2:
        raise ValueError("`steps` must be >= 2")
    return th.logspace(log10(lr_min), log10(lr_max), steps, base=10.0, dtype=th.float64)


@contextmanager
def frozen(model: nn.Module, optimizer: th.optim.Optimizer) -> t.Iterator[None]:
    memory = copy.deepcopy([b.data for b in chain(model.parameters(), model.buffers())])
    training = [m.training for m in model.modules()]
    states = copy.deepcopy(optimizer.state_dict())
    yield
    for tensor, value in zip(chain(model.parameters(), model.buffers()), memory):
        tensor.data = value
    for module, mode in zip(model.modules(), training):
        module.training = mode
    optimizer.load_state_dict(states)


def lr_range_test(
    model, optimizer, loss_fn, loader, lr_min=1e-6, lr_max=10.0, steps=100
) -> LRRangeTest:
    rates = exponential_lrs(lr_min, lr_max, steps)
    batches = chain.from_iterable(repeat(loader))
    if not len(loader):
        raise ValueError("`loader` is empty")
    losses: list[float] = []
    with frozen(model, optimizer):
        for module in model.modules():
            module.training = True
        for rate, (x, y) in zip(rates, batches):
            for group in optimizer.param_groups:
                group["lr"] = rate
            loss = loss_fn(model(x), y)
            lowest = min(losses, default=inf)
            losses += [loss.item()]
            if not isfinite(losses[-1]) or losses[-1] > LIMIT * lowest:
                break
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return LRRangeTest(rates[: len(losses)], th.as_tensor(losses, dtype=th.float64))


def suggest_lr(result: LRRangeTest, factor: float = 4.0) -> float:
    losses = result.losses.tolist()
    lowest = chain([inf], accumulate(losses, min))
    bad = (
        rate
        for rate, loss, low in zip(result.learning_rates.tolist(), losses, lowest)
        if not isfinite(loss) or loss > factor * low
    )
    for rate in islice(bad, 1):
        return rate / 10
    raise ValueError("`result.losses` never diverge")


def plot_lr_range_test(result: LRRangeTest, suggestion: float | None = None):
    with pyplot.ioff():
        fig, ax = pyplot.subplots(layout="tight")
    try:
        ax.loglog(result.learning_rates.numpy(), result.losses.numpy(), marker="o")
        ax.set_xlabel("learning rate (log)")
        ax.set_ylabel("loss (log)")
        for x in () if suggestion is None else (suggestion,):
            ax.axvline(x, ls=":")
    finally:
        pyplot.close(fig)
    return fig
