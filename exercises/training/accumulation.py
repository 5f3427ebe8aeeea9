"""Gradient accumulation: the step of a big batch from small batches that fit into memory.

A batch of 1024 rows may be more than a device can hold: its graph keeps the activations of all rows at once.
Four batches of 256 rows, one after the other, need a quarter of that. `backward` adds to `.grad`, so what
stands there after the fourth backward pass comes from all 1024 rows, and one optimizer step can follow. It is
the step of the big batch only if each small batch counts by its rows. Let N be the rows of all batches
together, and n_i and loss_i the rows and the mean loss of batch i. Then

    loss of the big batch = (n_1 * loss_1 + n_2 * loss_2 + ...) / N

and its gradient is the same sum of gradients. The batch that is shorter than the others is the one on
which most training loops on the internet go wrong.

Rules for both functions: `loss_fn(model(inputs), targets)` is the mean over the rows of a batch, and a batch
has at least one row. The rows are counted by the first dimension of `inputs`: batches may have different
numbers of them, and other dimensions, such as the length of sequences, may differ from batch to batch, too.
The model has neither batch statistics nor dropout; some of its parameters may be frozen.

Source: Ott et al. (2018), "Scaling Neural Machine Translation", section 3.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn


def accumulate_gradients(
    model: nn.Module,
    batches: Sequence[tuple[Tensor, Tensor]],
    loss_fn: Callable[[Tensor, Tensor], Tensor],
) -> float:
    """Add the gradient of the one big batch to every parameter's `.grad`, and return its loss, a float.

    `batches` is a list or tuple of `(inputs, targets)`. Added is the gradient of the mean loss over all rows of
    all batches, and that mean loss, a Python float, is the result.

    - As `backward` does, you add: a gradient that was there before stays in the sum. Frozen parameters, and
      those that the loss does not depend on, keep the `.grad` that they have.
    - `model(inputs)` is called once for each batch, in order, on that batch alone (call the model itself, not
      its `forward`, which leaves out hooks).
    - The backward pass of a batch (`backward` or `torch.autograd.grad`) is done before the next forward pass
      begins, so that one graph at a time is in memory.
    - Values of parameters, buffers, and the mode of the model stay as they are.

    Raises ValueError that names `batches` if there is none.
    """
    # TODO: weigh by rows, one graph at a time.
    raise NotImplementedError("accumulate_gradients: weigh by rows, one graph at a time")


def train_epoch(
    model: nn.Module,
    loader: Iterable[tuple[Tensor, Tensor]],
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    accumulation_steps: int,
    max_norm: float | None = None,
) -> list[float]:
    """Train `model` for one epoch, with one optimizer step for every `accumulation_steps` batches.

    `accumulation_steps` consecutive batches of `loader` are a group; the last group may have fewer. For each
    group:

    1. Gradients of the groups before do not count.
    2. The gradient of the mean loss over all rows of the group is accumulated, one batch at a time, as
       `accumulate_gradients` does it.
    3. With a `max_norm`, a positive number, the accumulated gradient is clipped, once for the group:
       `nn.utils.clip_grad_norm_(model.parameters(), max_norm)`.
    4. The optimizer makes one step.

    So the weights, and the optimizer's own state such as momentum, are in the end those of ordinary training on
    a loader whose batches are the groups. The result is a list of floats: the mean loss over the rows of each
    group, with the weights before its step. A loader that yields nothing: no step, and [].

    `loader` is iterated once, and may be a generator without a length. The model is trained, and left, in
    training mode, all of its submodules too. The optimizer holds all parameters of the model, which have no
    gradients yet. Whether `zero_grad` comes before the group or after the step is up to you.

    Raises ValueError that names `accumulation_steps` if it is below 1, before anything changes.
    """
    # TODO: one step for each group.
    raise NotImplementedError("train_epoch: one step for each group")
