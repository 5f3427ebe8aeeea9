"""Gradient accumulation: the step of a big batch from small batches that fit into memory.

A graph keeps the activations of its whole batch. Four batches of 256 rows, one after the other, need a quarter
of the memory of 1024 rows, and `backward` adds to `.grad`. One optimizer step then is that of the big batch, if
each batch i counts by its rows n_i. With N rows in all,

    loss of the big batch = (n_1 * loss_1 + n_2 * loss_2 + ...) / N

A batch has at least one row. Batches may differ in the number of rows, and in other dimensions, too. The model
has neither batch statistics nor dropout; some of its parameters may be frozen.

Source: Ott et al. (2018), "Scaling Neural Machine Translation", section 3.

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

# begin solution: imports
import itertools  # isort: skip
# end solution


def accumulate_gradients(
    model: nn.Module,
    batches: Sequence[tuple[Tensor, Tensor]],
    loss_fn: Callable[[Tensor, Tensor], Tensor],
) -> float:
    """Add the gradient of the one big batch to every parameter's `.grad`, and return its loss, a float.

    `batches` is a list or tuple of `(inputs, targets)`; the loss is the mean over all of their rows.

    - As `backward` does, you add: a gradient that was there before stays in the sum. Frozen parameters, and
      those that the loss does not depend on, keep the `.grad` that they have.
    - `model(inputs)` is called once for each batch, in order, on that batch alone.
    - The backward pass of a batch (`backward` or `torch.autograd.grad`) is done before the next forward pass
      begins, so that one graph at a time is in memory.

    Raises ValueError that names `batches` if there is none.
    """
    # begin solution: weigh by rows, one graph at a time
    rows = sum(len(inputs) for inputs, _ in batches)
    if not batches:
        raise ValueError("batches must hold at least one batch, got none")
    total = 0.0
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets) * (len(inputs) / rows)
        loss.backward()
        # A float, because the tensor would keep its graph.
        total += loss.item()
    return total
    # end solution


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
    2. The gradient of the mean loss over all rows of the group is accumulated as in `accumulate_gradients`.
    3. With a `max_norm`, a positive number, the accumulated gradient is clipped, once for the group:
       `nn.utils.clip_grad_norm_(model.parameters(), max_norm)`.
    4. The optimizer makes one step.

    The result is a list of floats: the mean loss over the rows of each group, before its step. A loader that
    yields nothing gives no step and [].

    `loader` is iterated once, and may be a generator. The model is trained, and left, in training mode. The
    optimizer holds all of its parameters, which have no gradients yet. Clear gradients before the group or
    after the step.

    Raises ValueError that names `accumulation_steps` if it is below 1.
    """
    # begin solution: one step for each group
    if accumulation_steps < 1:
        raise ValueError(f"accumulation_steps must be at least 1, got {accumulation_steps}")
    model.train()
    iterator = iter(loader)
    losses = []
    # The last group takes the remaining batches, and an empty group ends the epoch.
    while group := list(itertools.islice(iterator, accumulation_steps)):
        optimizer.zero_grad()
        losses.append(accumulate_gradients(model, group, loss_fn))
        if max_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
    return losses
    # end solution
