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
    # TODO: space the rates evenly in log(lr).
    raise NotImplementedError("exponential_lrs: space the rates evenly in log(lr)")


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
    # TODO: train while the rate grows, then restore everything.
    raise NotImplementedError("lr_range_test: train while the rate grows, then restore everything")


def suggest_lr(result: LRRangeTest, factor: float = 4.0) -> float:
    """Suggest a learning rate: one decade below the rate at which the loss begins to diverge.

    Divergence begins at the first i whose loss is not finite, or is above `factor` (more than 1) times the
    lowest loss before it. The suggestion is `result.learning_rates[i] / 10`, a Python float. The losses
    `[2, 1, 3, 5]` diverge at the last one: 3 is not above 4 * 1, but 5 is. `result` has at least one entry, and
    its finite losses are positive.

    Raises ValueError that names `result` or its `losses` if the losses never diverge.
    """
    # TODO: find where the loss begins to diverge.
    raise NotImplementedError("suggest_lr: find where the loss begins to diverge")


def plot_lr_range_test(result: LRRangeTest, suggestion: float | None = None) -> Figure:
    """Plot the loss over the learning rate, and mark the suggestion, if there is one.

    The figure has one Axes, with the recorded losses (at least those that are finite) over their learning
    rates, a logarithmic x axis, and a label on both axes. A suggestion is a vertical line at that x (`axvline`,
    `vlines` or a plotted line).

    The figure is returned, not shown: no window opens, and figures in pyplot are as before, yours not among
    them.
    """
    # TODO: plot the loss over a logarithmic learning rate.
    raise NotImplementedError("plot_lr_range_test: plot the loss over a logarithmic learning rate")
