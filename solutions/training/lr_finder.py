"""Learning-rate range test: find a learning rate in one short run instead of a dozen long ones.

Train for a hundred mini-batches, and before each of them raise the learning rate a little, from far too small
to far too large:

    lr_i = lr_min * (lr_max / lr_min) ** (i / (steps - 1))        i = 0, 1, ..., steps - 1

The loss is flat at first, then falls, and in the end it blows up. A good rate is one decade below the one at
which that begins.

Source: L. N. Smith (2015), "Cyclical Learning Rates for Training Neural Networks", arXiv:1506.01186, section
3.3.

What holds for every exercise: docs/every-exercise.md.
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

# begin solution: imports and constants
import copy  # isort: skip
import math  # isort: skip
from collections.abc import Iterator  # isort: skip
from contextlib import contextmanager  # isort: skip
from itertools import chain  # isort: skip

STOP_FACTOR = 4.0
# end solution


class LRRangeTest(NamedTuple):
    """What a range test measured, one entry for each step that was run (given).

    `losses[i]` is the loss of the i-th mini-batch, before the step that was taken with the rate
    `learning_rates[i]`. Both are float64 tensors of shape `(n,)`.
    """

    learning_rates: Tensor
    losses: Tensor


def exponential_lrs(lr_min: float = 1e-6, lr_max: float = 10.0, steps: int = 100) -> Tensor:
    """Return `steps` learning rates from `lr_min` to `lr_max`, evenly spaced in log(lr): (steps,), float64.

    For example, `exponential_lrs(0.01, 1.0, 3)` is `[0.01, 0.1, 1.0]`.

    Raises ValueError that names `lr_min` if it is 0 or below, `lr_max` if `lr_max <= lr_min`, or `steps` if it
    is below 2.
    """
    # begin solution: space the rates evenly in log(lr)
    if lr_min <= 0:
        raise ValueError(f"lr_min must be above 0, got {lr_min}")
    if lr_max <= lr_min:
        raise ValueError(f"lr_max must be above lr_min = {lr_min}, got {lr_max}")
    if steps < 2:
        raise ValueError(f"steps must be at least 2, got {steps}")
    return torch.logspace(math.log10(lr_min), math.log10(lr_max), steps, dtype=torch.float64)
    # end solution


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

    The whole model is in training mode. Step i does, in this order:

    1. set the learning rate of *every* parameter group of the optimizer to the i-th rate of
       `exponential_lrs(lr_min, lr_max, steps)`;
    2. take the next mini-batch. When the loader has run out, iterate over it again, so that it may shuffle
       anew;
    3. zero the gradients, also those from before the test;
    4. compute the loss and record it, detached from the graph;
    5. run the backward pass, and take a step of the optimizer that you were given.

    The test stops early, after recording it, at a loss that is not finite, or that is more than 4 times the
    lowest loss before it. Whether a step still follows is up to you.

    When the function returns, however the test ended, these are exactly what they were:

    - every parameter, the same object with the same value and `requires_grad`;
    - every buffer, also one with `persistent=False`;
    - the training mode of every submodule;
    - the optimizer's state dict: the options of each group and the state of each parameter, which has none
      afterwards if it had none before.

    Only `.grad` may hold anything. The result is the rates and losses of the n steps that were run.

    Raises ValueError that names `loader` if it yields nothing.
    """
    # begin solution: train while the rate grows, then restore everything
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
    # end solution


def suggest_lr(result: LRRangeTest, factor: float = 4.0) -> float:
    """Suggest a learning rate: one decade below the rate at which the loss begins to diverge.

    Divergence begins at the first i whose loss is not finite, or is above `factor` (more than 1) times the
    lowest loss before it. The suggestion is `result.learning_rates[i] / 10`, a Python float. The losses
    `[2, 1, 3, 5]` diverge at the last one: 3 is not above 4 * 1, but 5 is. `result` has at least one entry, and
    its finite losses are positive.

    Raises ValueError that names `result` or its `losses` if the losses never diverge.
    """
    # begin solution: find where the loss begins to diverge
    lowest = math.inf
    for rate, loss in zip(result.learning_rates.tolist(), result.losses.tolist(), strict=True):
        if _diverges(loss, lowest, factor):
            return float(rate / 10)
        lowest = min(lowest, loss)
    raise ValueError(
        f"the losses of this result never diverge: none is above {factor} times the lowest before "
        "it. Test larger learning rates."
    )
    # end solution


def plot_lr_range_test(result: LRRangeTest, suggestion: float | None = None) -> Figure:
    """Plot the loss over the learning rate, and mark the suggestion, if there is one.

    The figure has one Axes, with the recorded losses (at least those that are finite) over their learning
    rates, a logarithmic x axis, and a label on both axes. A suggestion is a vertical line at that x (`axvline`,
    `vlines` or a plotted line).

    The figure is returned, not shown: no window opens, and figures in pyplot are as before, yours not among
    them.
    """
    # begin solution: plot the loss over a logarithmic learning rate
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
    # end solution


# begin solution
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
    # Clones, because the optimizer changes parameters in place. Not the model's state dict, which
    # lacks the buffers that are not persistent.
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
        # Not module.train(mode), which would set the modes of all its children, too.
        for module, mode in modes:
            module.training = mode


def _named_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return chain(model.named_parameters(), model.named_buffers())


# end solution
