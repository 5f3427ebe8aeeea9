"""The training loop: epochs of training and evaluation, early stopping, and the best weights in the end.

Early stopping gives up once the *validation loss*, on data that the model does not train on, has not improved
for `patience` epochs, and goes back to the weights with which it was lowest.

- A loader has a length (its batches) and a `dataset` with a length (its rows), and yields at least one batch.
  The last batch may have fewer rows.
- Outputs are (n, C), scores of C classes, and targets (n,), the numbers of the right classes.
- `train_epoch` and `evaluate` pass over their loader once, and each batch goes through the model once.

Source: Prechelt (1998), "Early Stopping - But When?"; PyTorch's tutorial "Quickstart".

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

# begin solution: imports
import copy  # isort: skip
import math  # isort: skip

# end solution

LossFn = Callable[[Tensor, Tensor], Tensor]


class Loader(Protocol):
    """Given: a loader, as `torch.utils.data.DataLoader` is one."""

    dataset: Any

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


def train_epoch(
    model: nn.Module, loader: Loader, loss_fn: LossFn, optimizer: torch.optim.Optimizer
) -> float:
    """Train `model` for one epoch, and return the mean of the batch losses, a float.

    The model trains in training mode, which is set at each call. For each batch: clear the gradients, forward,
    backward, one optimizer step. Whether the mean weighs the batches by their rows is up to you.
    """
    # begin solution: training mode, then four lines for each batch
    model.train()
    total = 0.0
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)
    # end solution


def evaluate(model: nn.Module, loader: Loader, loss_fn: LossFn) -> tuple[float, float]:
    """The mean loss and the accuracy of `model` over all samples (rows) of `loader`, two floats.

    - The loss of a batch counts by its rows, so that the mean does not depend on the sizes of the batches.
    - The accuracy is the fraction, from 0 to 1, of the samples whose argmax over dimension 1 of the outputs is
      the target.

    The model runs in evaluation mode and without autograd: no graph is built. The mode in which it is left is
    up to you.
    """
    # begin solution: evaluation mode, no graph, sums over samples
    model.eval()
    total, hits, rows = 0.0, 0, 0
    with torch.no_grad():
        for inputs, targets in loader:
            outputs = model(inputs)
            total += loss_fn(outputs, targets).item() * len(targets)
            hits += int((outputs.argmax(dim=1) == targets).sum())
            rows += len(targets)
    return total / rows, hits / rows
    # end solution


def fit(
    model: nn.Module,
    train_loader: Loader,
    val_loader: Loader,
    loss_fn: LossFn,
    optimizer: torch.optim.Optimizer,
    epochs: int,
    patience: int = 5,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
) -> dict[str, list[float]]:
    """Train for up to `epochs` epochs, stop early, and leave `model` with the weights of its best epoch.

    An epoch is `train_epoch` on `train_loader`, then `evaluate` on `val_loader`. If there is a `scheduler`, its
    `step()` is called, without arguments, once an epoch after the epoch's optimizer steps.

    - An epoch improves if its validation loss is strictly below the lowest one so far. A loss of NaN or inf
      never improves.
    - Training stops after `patience` epochs in a row that did not improve.
    - Afterwards `model` itself holds the weights and the buffers (all of its state dict) of its best epoch, the
      one that improved last, also where training did not stop early. Where no epoch improved, it holds those of
      the last one.

    The result is a dict with exactly the keys "train_loss", "val_loss" and "val_acc": lists of floats, one for
    each epoch that ran, the last one included.

    Up to you: whether the scheduler steps before or after the evaluation, and whether also in the last epoch;
    modes, gradients and the optimizer's state afterwards.

    Raises ValueError, before anything is trained, that names `epochs` or `patience` if it is below 1.
    """
    # begin solution: train, evaluate, remember the best, stop in time
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    if patience < 1:
        raise ValueError(f"patience must be at least 1, got {patience}")
    history: dict[str, list[float]] = {"train_loss": [], "val_loss": [], "val_acc": []}
    lowest, best, waited = math.inf, None, 0
    for _ in range(epochs):
        history["train_loss"].append(train_epoch(model, train_loader, loss_fn, optimizer))
        val_loss, val_acc = evaluate(model, val_loader, loss_fn)
        history["val_loss"].append(val_loss)
        history["val_acc"].append(val_acc)
        if scheduler is not None:
            scheduler.step()
        # Comparisons with NaN are False.
        if val_loss < lowest:
            # A state dict refers to the weights themselves: without a copy, training would go on in it.
            lowest, best, waited = val_loss, copy.deepcopy(model.state_dict()), 0
        else:
            waited += 1
            if waited == patience:
                break
    if best is not None:
        model.load_state_dict(best)
    return history
    # end solution
