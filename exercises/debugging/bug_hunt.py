"""Find the planted bugs: a training program that runs to its end, and learns next to nothing.

This file is complete, and nothing in it raises. All the same there are eight bugs in it, each a line that is
wrong, that is missing, or that should not be there. The docstrings are right: compare each with its code,
sentence by sentence. Fix a line or rewrite a function; every bug counts by itself.

- A dataset is map-style, with items `(features, label)`, and not empty.
- "The mean loss" of several batches may be that over batches or that over samples.
- In which mode (training or evaluation) a function leaves the model is up to you.

Source: Karpathy (2019), "A Recipe for Training Neural Networks".

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

LossFunction = Callable[[Tensor, Tensor], Tensor]


def make_loaders(
    train: Dataset[Any], validation: Dataset[Any], batch_size: int = 32, seed: int = 0
) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Return a loader of the training data and one of the validation data, without workers.

    The training loader yields batches of `batch_size` samples that are shuffled anew in every pass over it,
    sample by sample. No sample comes twice in a pass; whether a last short batch is dropped is up to you. The
    orders follow from `seed` alone, whatever the global random state is; other seeds give others.

    The validation loader yields every sample once, in the dataset's order, in batches of any size.
    """
    generator = torch.Generator().manual_seed(seed)
    training = DataLoader(train, batch_size=batch_size, shuffle=False, generator=generator)
    return training, DataLoader(validation, batch_size=2 * batch_size)


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer of `torch.optim` that trains every trainable parameter of `model`.

    Its learning rate is from 1e-4 to 0.1, in each parameter group. All else is up to you.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.SGD(trainable, lr=10, momentum=0.9)


def classification_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of a batch, of shape ().

    `logits` (B, C) are raw scores of C classes, any real numbers, and `targets` (B,) int64 the true classes.
    The loss is the mean over the rows of -log(exp(logit of the target) / sum of exp(logits)), with its
    gradient, and finite for logits up to 1e4 in magnitude.
    """
    return F.cross_entropy(logits.softmax(dim=1), targets)


def train_epoch(
    model: nn.Module,
    loader: DataLoader[Any],
    loss_fn: LossFunction,
    optimizer: torch.optim.Optimizer,
) -> float:
    """Train `model` for one pass over `loader`, and return the mean loss of the epoch, a float.

    - Every submodule is in training mode in every forward pass, whatever the mode was before.
    - The optimizer makes one step for each batch, by the gradient of this batch's loss and of nothing else. No
      parameter has a gradient when the call begins: you may clear gradients before a backward pass or after a
      step.
    """
    total = 0.0
    for inputs, targets in loader:
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def evaluate(
    model: nn.Module, loader: DataLoader[Any], loss_fn: LossFunction
) -> tuple[float, float]:
    """Return the mean loss and the accuracy of `model` on the data of `loader`, two floats.

    The accuracy is the share, of all samples, whose largest logit is the one of the target.

    - Every submodule is in evaluation mode in every forward pass, whatever the mode was before.
    - Gradients are disabled while `model` and `loss_fn` run, so that no graph is built, and enabled again
      afterwards.
    - Parameters, buffers (as the running statistics of batch norm) and every `.grad` are as they were.
    """
    total, hits, samples = 0.0, 0, 0
    for inputs, targets in loader:
        logits = model(inputs)
        total += loss_fn(logits, targets).item()
        hits += int((logits.argmax(dim=1) == targets).sum())
        samples += len(targets)
    return total / len(loader), hits / samples


def fit(
    model: nn.Module,
    train: Dataset[Any],
    validation: Dataset[Any],
    epochs: int = 5,
    batch_size: int = 32,
    seed: int = 0,
) -> dict[str, list[float]]:
    """Train `model` for `epochs` epochs, at least one, and return what happened in each of them.

    In each epoch comes `train_epoch`, then `evaluate` on the validation data, both with `classification_loss`,
    by the optimizer of `make_optimizer`. The result has exactly the keys "train_loss", "validation_loss" and
    "accuracy", each with a list of `epochs` floats.

    - Each epoch has an order of the training data of its own. `seed` decides these orders, as in
      `make_loaders`: the same call on an equal model that draws no random numbers gives the same history.
    - The global random state is never set back between epochs: what the model draws, such as the masks of
      dropout, differs from epoch to epoch. To seed it once, at the start, is up to you.
    """
    training, validating = make_loaders(train, validation, batch_size, seed)
    optimizer = make_optimizer(model)
    history: dict[str, list[float]] = {"train_loss": [], "validation_loss": [], "accuracy": []}
    for _ in range(epochs):
        torch.manual_seed(seed)
        train_loss = train_epoch(model, training, classification_loss, optimizer)
        validation_loss, accuracy = evaluate(model, validating, classification_loss)
        history["train_loss"].append(train_loss)
        history["validation_loss"].append(validation_loss)
        history["accuracy"].append(accuracy)
    return history
