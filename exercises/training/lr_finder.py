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
    `learning_rates[i]`. Both are float64 tensors of shape `(n,)`.
    """

    learning_rates: Tensor
    losses: Tensor


def exponential_lrs(lr_min: float = 1e-6, lr_max: float = 10.0, steps: int = 100) -> Tensor:
    """Return `steps` learning rates from `lr_min` to `lr_max`, evenly spaced in log(lr).

    Every rate is the one before it times the same constant. The first is `lr_min` and the last
    is `lr_max`. For example, `exponential_lrs(0.01, 1.0, 3)` is `[0.01, 0.1, 1.0]`.

    Returns:
        A tensor `(steps,)`, float64 and computed in float64.

    Raises:
        ValueError: if `lr_min <= 0` (the message names `lr_min`), `lr_max <= lr_min` (it names
            `lr_max`), or `steps < 2` (it names `steps`).
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

    The whole model is in train mode during the test, whatever mode it came in. Step i does, in
    this order:

    1. set the learning rate of *every* parameter group of the optimizer to the i-th rate of
       `exponential_lrs(lr_min, lr_max, steps)`;
    2. take the next mini-batch. When the loader has run out, iterate over it again from its
       start, so that it may shuffle anew: do not keep the batches of its first pass;
    3. zero the gradients, so that this batch alone counts (also at the first step: the model may
       come with gradients from before the test);
    4. compute the loss, `loss_fn(model(inputs), targets)`, and record it, detached from the graph;
    5. run the backward pass, and take a step of the optimizer that you were given.

    The test stops early, after recording it, at a loss that is not finite, or that is more than 4
    times the lowest loss before it (exactly 4 times does not stop it). Whether the step that
    follows such a loss is still taken makes no difference: it is undone like all the others.

    When the function returns, however the test ended, these are exactly what they were:

    - every parameter of the model: the same `Parameter` objects with the same values and the same
      `requires_grad`, so that the optimizer still trains them;
    - every buffer of the model: the running statistics of a batch norm, and also buffers that are
      registered with `persistent=False`, which the state dict does not hold;
    - the training mode of every submodule: some may have been in eval mode while others were not;
    - the optimizer's state dict: the learning rate and the other options of each group, and the
      state of each parameter, such as its momentum. State that did not exist before does not
      exist afterwards.

    The parameters' `.grad` may hold anything afterwards. The function does not seed the global
    random state.

    Args:
        model: any module, in any mixture of modes.
        optimizer: an optimizer over the model's parameters, with one group or several.
        loss_fn: takes the model's outputs and the targets, and returns a scalar tensor.
        loader: has a length, can be iterated again, and yields pairs `(inputs, targets)`: a
            `DataLoader`, a list of pairs.
        lr_min: the first rate.
        lr_max: the last rate, unless the test stops early.
        steps: the number of rates.

    Returns:
        An `LRRangeTest` of two float64 tensors `(n,)`, where `n` is the number of recorded
        losses: the first `n` rates, and the losses. Neither requires a gradient.

    Raises:
        ValueError: if the loader yields nothing; the message names `loader`.
    """
    # TODO: train while the rate grows, then restore everything.
    raise NotImplementedError("lr_range_test: train while the rate grows, then restore everything")


def suggest_lr(result: LRRangeTest, factor: float = 4.0) -> float:
    """Suggest a learning rate: one decade below the rate at which the loss begins to diverge.

    Divergence begins at the first i whose loss is not finite (NaN or infinite), or is above
    `factor` times the lowest loss before it. The suggestion is `result.learning_rates[i] / 10`, a
    Python float. For example, the losses `[2, 1, 3, 5]` diverge at the last one: 3 is not above
    4 * 1, but 5 is.

    Args:
        result: of a range test, with at least one entry. Its finite losses are positive. It is
            left as it is.
        factor: how many times the lowest loss so far is too much, above 1.

    Raises:
        ValueError: if the losses never diverge; the message names `result` or its `losses`.
    """
    # TODO: find where the loss begins to diverge.
    raise NotImplementedError("suggest_lr: find where the loss begins to diverge")


def plot_lr_range_test(result: LRRangeTest, suggestion: float | None = None) -> Figure:
    """Plot the loss over the learning rate, and mark the suggestion, if there is one.

    The figure has one Axes, with the recorded losses (at least those that are finite) over their
    learning rates, a logarithmic x axis, and a label on both axes. If a suggestion is given, there
    is a vertical line at that x (`axvline`, `vlines` or a plotted line).

    The function opens no window. It leaves no figure of its own open in pyplot's registry
    (`plt.get_fignums()` is the same before and after), and it neither closes nor changes the
    figures that its caller has open.

    Args:
        result: of a range test. It is left as it is.
        suggestion: the learning rate to mark, if any.
    """
    # TODO: plot the loss over a logarithmic learning rate.
    raise NotImplementedError("plot_lr_range_test: plot the loss over a logarithmic learning rate")
