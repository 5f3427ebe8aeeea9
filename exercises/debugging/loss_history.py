"""A loss history that keeps no graph, and never makes the CPU wait for the GPU.

Two lines of many training loops cost more than they seem to:

    losses.append(loss)          # keeps the graph of every batch: memory grows until it is used up
    total += loss.item()         # reads a value: the CPU waits until the GPU has computed it, at every step

`loss.detach()` has no graph, and a history can add up on the device, and read one number at the end of an
epoch.

These read a value of a tensor: `.item()`, `.tolist()`, `.cpu()`, `.numpy()`; `float()`, `int()`, `bool()`, and
so `if`, `min` and `max`; `print` and f-strings; a new tensor that is made of a list of tensors.

Source: PyTorch documentation, FAQ ("My model reports cuda runtime error: out of memory"), and the Performance
Tuning Guide ("Avoid unnecessary CPU-GPU synchronization").

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn


class LossHistory:
    """The mean loss of every epoch, from the mean losses of its batches.

        history = LossHistory()
        history.update(loss, size=32)     # after each batch
        history.update(loss, size=7)
        history.end_epoch()               # their mean over 39 samples, a float, which is also in history.epochs

    How you keep the losses of the current epoch is up to you. Two histories share nothing.
    """

    epochs: list[float]
    """The mean of every finished epoch, in order; empty in a new history."""

    def __init__(self) -> None:
        """Make an empty history."""
        # TODO: no epochs, and no losses yet.
        raise NotImplementedError("LossHistory.__init__: no epochs, and no losses yet")

    def update(self, loss: Tensor, size: int = 1) -> None:
        """Take `loss`, the mean loss of a batch of `size` samples, into the current epoch.

        `loss` is a 0-d tensor of any floating-point dtype and on any device, with or without a graph.

        - The history keeps no graph alive: the graph of `loss` is freed as soon as the caller drops the loss.
        - `loss` stays as it was, now and at later updates: `loss.backward()` still works. A running sum must
          not add into the memory of the first loss, which `detach()` shares.
        - No value is read, and what you compute stays on the device of `loss`, even on the meta device, where
          tensors have a shape and no values.

        Raises ValueError that names `loss` if it is not 0-d, or `size` if it is below 1.
        """
        # TODO: check, detach, and add to the epoch.
        raise NotImplementedError("LossHistory.update: check, detach, and add to the epoch")

    def end_epoch(self) -> float:
        """End the epoch: return the mean of its losses, append it to `epochs`, and begin a new one.

        The mean is over samples: each loss counts by its `size`. It is a Python float, and not finite if a loss
        is not.

        - One value is read in all, however many updates there were.
        - float64 losses are summed in float64; float16 and bfloat16 losses in float32 or better, since a sum in
          half precision stops growing or overflows.

        Raises ValueError, with any message, if there was no update since the last epoch ended.
        """
        # TODO: the weighted mean, read once.
        raise NotImplementedError("LossHistory.end_epoch: the weighted mean, read once")


def train_epoch(
    model: nn.Module,
    loader: Iterable[tuple[Tensor, Tensor]],
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    history: LossHistory,
) -> float:
    """Train `model` for an epoch, end the epoch of `history`, and return its mean loss.

    The whole model is in training mode. For each `(inputs, targets)` of `loader`, clear the gradients, compute
    the loss, run its backward pass, and make a step of the optimizer. `history.update` gets this loss, and the
    number of rows of `inputs`. No value is read before `history.end_epoch`, and afterwards no graph is alive.

    No parameter has a gradient when a call begins: you may clear gradients before the backward pass or after
    the step.
    """
    # TODO: train, and update the history at each batch.
    raise NotImplementedError("train_epoch: train, and update the history at each batch")
