"""Gradient clipping by hand: a limit for the length of a step.

One step along a gradient that is a thousand times too long can undo hours of training. All gradients of the
model, one behind the other, are one long vector g. It is shortened, with one factor, so that its direction
stays:

    g becomes g * max_norm / norm(g)    if norm(g) > max_norm, and stays as it is otherwise

- A parameter whose `.grad` is None adds nothing, and its `.grad` stays None.
- Clipping works in place: each `.grad` stays the same tensor object.
- Not allowed: the clipping and norm functions of `torch.nn.utils` (`clip_grad_norm_`, `clip_grad_value_`,
  `get_total_norm`, ...). `torch.linalg.vector_norm` and `torch._foreach_...` are fine.

Source: Pascanu, Mikolov and Bengio (2013), "On the difficulty of training recurrent neural networks", section
3.2.

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

# begin solution: imports
import math  # isort: skip
# end solution


def total_norm(parameters: Iterable[Tensor], norm_type: float = 2.0) -> Tensor:
    """Return the norm of all gradients, as if they were one vector.

    `norm_type` is p, any number from 1 on, and the norm is

        (|g_1|^p + |g_2|^p + ...)^(1/p)        the largest of |g_1|, |g_2|, ... for p = math.inf

    of all entries: a 0-d tensor of the gradients' dtype, or a 0-d zero of any float dtype where there is no
    gradient. Inf and NaN come through.
    """
    # begin solution: the norm of the norms of all gradients
    gradients = [p.grad.detach() for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norms = [torch.linalg.vector_norm(gradient, norm_type) for gradient in gradients]
    # A sum of |a|^p can be taken in portions, so the norm of the norms is the norm of the whole vector.
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms), norm_type)
    return norm
    # end solution


def clip_grad_norm_(
    parameters: Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Shorten all gradients together to `max_norm`, in place, and return their norm from before.

    The norm is that of `total_norm(parameters, norm_type)`, a 0-d tensor as there.

    - Where it is above `max_norm`, every gradient is multiplied by `max_norm / norm`. (You may add up to 1e-6
      to the norm in that denominator, as PyTorch does.)
    - Where it is below, no gradient changes. With `max_norm=math.inf` gradients are only measured.
    - Where it is inf or NaN, there is no sensible factor. With `error_if_nonfinite` that is a RuntimeError,
      before any gradient changes. Without, the norm is returned, and the gradients may hold anything.

    Raises ValueError that names `max_norm` if it is 0 or below.
    """
    # begin solution: measure, then multiply all gradients by one factor
    if max_norm <= 0:
        raise ValueError(f"max_norm must be above 0, got {max_norm}")
    # The parameters are used twice, and a generator would be exhausted after the norm.
    parameters = list(parameters)
    norm = total_norm(parameters, norm_type)
    if error_if_nonfinite and not norm.isfinite():
        raise RuntimeError(f"the norm of the gradients is {norm.item()}")
    if norm > max_norm:
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(max_norm / norm)
    return norm
    # end solution


def clip_grad_value_(parameters: Iterable[Tensor], clip_value: float) -> None:
    """Clamp every entry of every gradient to `-clip_value` ... `clip_value`, in place. Return None.

    Inf becomes `clip_value`, -inf `-clip_value`, and NaN stays NaN. Unlike clipping by norm this changes the
    direction of the gradient.

    Raises ValueError that names `clip_value` if it is 0 or below.
    """
    # begin solution: clamp in place
    if clip_value <= 0:
        raise ValueError(f"clip_value must be above 0, got {clip_value}")
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.clamp_(-clip_value, clip_value)
    # end solution


def train_step(
    model: nn.Module,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    inputs: Tensor,
    targets: Tensor,
    max_norm: float,
) -> float:
    """Make one training step with clipped gradients, and return their norm before clipping, a float.

    Zero the gradients, make one forward pass, compute the loss, run backward, clip the gradients of
    `model.parameters()` to a 2-norm of `max_norm`, and let the optimizer make its step.

    - A step whose norm is inf or NaN is skipped: parameters and the optimizer's state stay as they were, and
      the next call works as ever. A loss can be finite where its gradients are not. The norm is returned all
      the same.
    - The optimizer holds all parameters of the model, some of which may be frozen, or not matter to the loss.
    """
    # begin solution: zero, forward, backward, clip, step
    optimizer.zero_grad()
    loss_fn(model(inputs), targets).backward()
    norm = clip_grad_norm_(model.parameters(), max_norm).item()
    if math.isfinite(norm):
        optimizer.step()
    return norm
    # end solution
