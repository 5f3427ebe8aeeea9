"""Learning-rate range test: find a learning rate in one short run instead of a dozen long ones.

Train for a hundred mini-batches while the learning rate grows exponentially, and look where the
loss begins to blow up: a good rate is one decade below. When it is over, the model and the
optimizer are exactly what they were.

Source: L. N. Smith, "Cyclical Learning Rates for Training Neural Networks", arXiv:1506.01186,
section 3.3 (first version 2015).
"""

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
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

STOP_FACTOR = 4.0


class LRRangeTest(NamedTuple):
    """What a range test measured, one entry for each step that was run.

    `losses[i]` is the loss of the i-th mini-batch, before the step that was taken with the rate
    `learning_rates[i]`. Both are float64 tensors of shape `(n,)`.
    """

    learning_rates: Tensor
    losses: Tensor


def exponential_lrs(lr_min: float = 1e-6, lr_max: float = 10.0, steps: int = 100) -> Tensor:
    """Return `steps` learning rates from `lr_min` to `lr_max`, evenly spaced in log(lr).

    Returns:
        A float64 tensor `(steps,)`.

    Raises:
        ValueError: if `lr_min <= 0`, `lr_max <= lr_min` or `steps < 2`.
    """
    if lr_min <= 0:
        raise ValueError(f"lr_min must be above 0, got {lr_min}")
    if lr_max <= lr_min:
        raise ValueError(f"lr_max must be above lr_min = {lr_min}, got {lr_max}")
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
    """Train for up to `steps` mini-batches while the learning rate grows, and record each loss.

    Returns:
        The rates and the losses of the steps that were run, float64 `(n,)` each.

    Raises:
        ValueError: if the loader yields nothing.
    """
    rates = exponential_lrs(lr_min, lr_max, steps)
    losses: list[float] = []
    lowest = math.inf
    with _left_as_found(model, optimizer):
        model.train()
        # The rates come first in the zip: it ends with them, before it asks for one more batch.
        for rate, (inputs, targets) in zip(rates.tolist(), _endless(loader), strict=False):
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), targets)
            losses.append(loss.item())
            if _diverges(losses[-1], lowest, STOP_FACTOR):
                break
            lowest = min(lowest, losses[-1])
            loss.backward()
            optimizer.step()
    return LRRangeTest(rates[: len(losses)], torch.tensor(losses, dtype=torch.float64))


def suggest_lr(result: LRRangeTest, factor: float = 4.0) -> float:
    """Suggest a learning rate: one decade below the rate at which the loss begins to diverge.

    Raises:
        ValueError: if the losses never diverge.
    """
    lowest = math.inf
    for rate, loss in zip(result.learning_rates.tolist(), result.losses.tolist(), strict=True):
        if _diverges(loss, lowest, factor):
            return float(rate / 10)
        lowest = min(lowest, loss)
    raise ValueError(
        f"the losses of this result never diverge: none is above {factor} times the lowest before "
        "it. Test larger learning rates."
    )


def plot_lr_range_test(result: LRRangeTest, suggestion: float | None = None) -> Figure:
    """Plot the loss over the learning rate, and mark the suggestion, if there is one.

    Returns:
        A figure that pyplot knows nothing of.
    """
    # Not plt.subplots: pyplot would keep the figure until somebody closes it.
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot(result.learning_rates.numpy(), result.losses.numpy(), label="loss")
    axes.set_xscale("log")
    axes.set_xlabel("learning rate")
    axes.set_ylabel("loss")
    # Not `if suggestion:`, which takes 0.0 for None.
    if suggestion is not None:
        axes.axvline(suggestion, linestyle="--", color="gray", label=f"suggested: {suggestion:.2g}")
        axes.legend()
    return figure


def _diverges(loss: float, lowest: float, factor: float) -> bool:
    """Whether a loss is not finite, or above `factor` times the lowest loss before it."""
    return not math.isfinite(loss) or loss > factor * lowest


def _endless(loader: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the batches of pass after pass over the loader."""
    while True:
        # Not itertools.cycle, which repeats the first pass, so that a loader never shuffles anew.
        batch = None
        for batch in loader:
            yield batch
        if batch is None:
            raise ValueError("loader yields no batches")


@contextmanager
def _left_as_found(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Put the model and the optimizer back as they were, even if the body raises."""
    # Clones, for the optimizer changes parameters in place; by name, and not by the model's state
    # dict, which lacks the buffers that are not persistent.
    tensors = {name: tensor.detach().clone() for name, tensor in _named_tensors(model)}
    modes = [(module, module.training) for module in model.modules()]
    optimizer_state = copy.deepcopy(optimizer.state_dict())
    try:
        yield
    finally:
        with torch.no_grad():
            for name, tensor in _named_tensors(model):
                tensor.copy_(tensors[name])
        optimizer.load_state_dict(optimizer_state)
        # Not module.train(mode), which would set the mode of everything below it too.
        for module, mode in modes:
            module.training = mode


def _named_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return chain(model.named_parameters(), model.named_buffers())
