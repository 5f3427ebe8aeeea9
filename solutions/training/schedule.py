"""Warm-up and cosine decay: a learning rate that rises, then falls along half a cosine.

The first steps of a training go in bad directions, so the rate grows in even parts over `warmup_steps` steps.
Then it falls as a cosine does from 0 to pi. A schedule is a *factor*, a number from 0 to 1, by which each
parameter group's own base learning rate is multiplied:

    1    |      ..--..
         |    .'      '-.
         |  .'           '.
    min  |.'               '-..____
         +-----|--------------|----> step
         warmup_steps    total_steps

Steps are counted from 0. Factors and rates are compared to 1e-6.

Source: Goyal et al. (2017), "Accurate, Large Minibatch SGD", section 2.2; Loshchilov and Hutter (2017), "SGDR:
Stochastic Gradient Descent with Warm Restarts", equation 5 (here without restarts).

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

# begin solution: imports
import functools  # isort: skip
import math  # isort: skip

# end solution


def warmup_cosine(
    step: int, total_steps: int, warmup_steps: int = 0, min_factor: float = 0.0
) -> float:
    """The factor of the base learning rate at a `step`: a Python number.

    - `step < warmup_steps`: `(step + 1) / warmup_steps`, so that the first step has a rate above 0, and the
      last step of the warm-up the full one.
    - Then `min_factor + (1 - min_factor) * (1 + cos(pi * progress)) / 2` with `progress = (step - warmup_steps)
      / (total_steps - warmup_steps)`.
    - From `total_steps` on, however far: `min_factor`.

    `warmup_steps=0` starts at 1, and `warmup_steps=total_steps` has no cosine.

    Raises ValueError, at any step, that names `total_steps` if it is below 1, `warmup_steps` if it is outside
    0..total_steps, `min_factor` if it is outside [0, 1], or `step` if it is below 0.
    """
    # begin solution: check the arguments, then warm up, fall, stay
    if total_steps < 1:
        raise ValueError(f"total_steps must be at least 1, got {total_steps}")
    if not 0 <= warmup_steps <= total_steps:
        raise ValueError(f"warmup_steps must be from 0 to {total_steps}, got {warmup_steps}")
    if not 0 <= min_factor <= 1:
        raise ValueError(f"min_factor must be from 0 to 1, got {min_factor}")
    if step < 0:
        raise ValueError(f"step must be at least 0, got {step}")
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if step >= total_steps:
        return min_factor
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return min_factor + (1 - min_factor) * (1 + math.cos(math.pi * progress)) / 2
    # end solution


def warmup_cosine_scheduler(
    optimizer: torch.optim.Optimizer,
    total_steps: int,
    warmup_steps: int = 0,
    min_factor: float = 0.0,
    last_epoch: int = -1,
) -> LambdaLR:
    """A scheduler that gives each parameter group its own base rate times `warmup_cosine`.

    The result is a `torch.optim.lr_scheduler.LambdaLR`, or a subclass of it. The step that `warmup_cosine` gets
    is the number of scheduler steps so far; before the first one, the groups already have the rates of step 0.
    `last_epoch` is that of LambdaLR.

    Training can be resumed after `n` scheduler steps, in two ways:

    - `torch.load` reads a saved `scheduler.state_dict()` with `weights_only=True`. A new optimizer, and a
      scheduler made over it with the same arguments, go on with the same rates once both have loaded their
      state dicts.
    - So does a scheduler made with `last_epoch=n - 1` over an optimizer that has loaded its state dict.

    Raises ValueError at once that names `total_steps`, `warmup_steps` or `min_factor`, as `warmup_cosine` does.
    """
    # begin solution: make a LambdaLR of a function of the step
    # LambdaLR asks for the first factor at once, so that bad arguments raise here.
    factor = functools.partial(
        warmup_cosine, total_steps=total_steps, warmup_steps=warmup_steps, min_factor=min_factor
    )
    return LambdaLR(optimizer, factor, last_epoch)
    # end solution


def train_with_schedule(
    model: nn.Module,
    loader: Iterable[tuple[Tensor, Tensor]],
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    scheduler: LambdaLR,
    epochs: int,
) -> list[float]:
    """Train `model` for some epochs, with one scheduler step after each optimizer step.

    `loader` has a length; each epoch is one pass over it. The whole model is in training mode. For each batch:

    1. Zero the gradients.
    2. Compute the loss, and run its backward pass.
    3. Make one step of the optimizer.
    4. Then make one step of the scheduler.

    The result is a list with one float for each batch, over all epochs: the learning rate of the first
    parameter group that this optimizer step used. `scheduler` is any LambdaLR over the optimizer; a second call
    goes on where the first one ended.

    Raises ValueError that names `epochs` if it is below 1.
    """
    # begin solution: one optimizer step, then one scheduler step
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    model.train()
    rates = []
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
    return rates
    # end solution
