"""Mixed precision: loss scaling by hand, and a training step under autocast.

Two formats have 16 bits:

    float16     precise to 3 digits, but small: above 65504 is inf, and below about 3e-8 everything is 0
    bfloat16    as wide as float32 (1e-38 ... 3e38), but precise to 2 digits only

In float16 small gradients become zero. Loss scaling helps: multiply the loss by a large number, the scale, and
divide the gradients by it before the optimizer's step. Too large a scale makes gradients inf; that step is
skipped, and the scale shrinks. After a long time without it grows.

With bfloat16 the scaler is optional. `torch.autocast` runs matrix products in it, while parameters and
gradients stay float32.

Source: Micikevicius et al. (2018), "Mixed Precision Training".

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def underflow_fraction(values: Tensor, scale: float = 1.0) -> float:
    """Return which part of the nonzero entries of `values` is lost in float16, a Python float from 0 to 1.

    Lost are the entries that are zero after `values` were multiplied by `scale` and turned into float16, not
    those that only lose digits or become inf. Without nonzero entries the result is 0.0.
    """
    # begin solution: scale, convert, and count the new zeros
    nonzero = values != 0
    count = int(nonzero.sum())
    # Scale before converting: a number that is zero in float16 stays zero with any scale.
    lost = nonzero & ((values * scale).to(torch.float16) == 0)
    return int(lost.sum()) / count if count else 0.0
    # end solution


class GradScaler:
    """Scale the loss, unscale the gradients, skip bad steps, and adapt the scale.

    A scaler serves one optimizer. An iteration is

        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)      # perhaps, to look at the gradients or to clip them
        scaler.step(optimizer)
        scaler.update()

    Not allowed: PyTorch's own GradScaler (in `torch.amp` and `torch.cuda.amp`) and its operators `_amp_...`.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ) -> None:
        """Begin with the scale `init_scale`.

        Raises ValueError that names the argument if `init_scale` is 0 or below, `growth_factor` is 1 or below,
        `backoff_factor` is not between 0 and 1 (neither is allowed itself), or `growth_interval` is below 1.
        """
        # begin solution: check the arguments, and set up the state
        if init_scale <= 0:
            raise ValueError(f"init_scale must be above 0, got {init_scale}")
        if growth_factor <= 1:
            raise ValueError(f"growth_factor must be above 1, got {growth_factor}")
        if not 0 < backoff_factor < 1:
            raise ValueError(f"backoff_factor must be between 0 and 1, got {backoff_factor}")
        if growth_interval < 1:
            raise ValueError(f"growth_interval must be at least 1, got {growth_interval}")
        self._scale = float(init_scale)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._good_iterations = 0
        self._unscaled = self._overflow = False
        # end solution

    def get_scale(self) -> float:
        """Return the current scale, a Python float."""
        # begin solution: return the scale
        return self._scale
        # end solution

    def scale(self, loss: Tensor) -> Tensor:
        """Return the loss times the scale: differentiable, a 0-d tensor."""
        # begin solution: multiply
        return loss * self._scale
        # end solution

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide every gradient of the optimizer's parameters by the scale, in place.

        That is all parameters of all parameter groups whose `.grad` is not None. Each `.grad` stays the same
        tensor object. Note also whether any entry is inf or NaN: `step` and `update` will need to know.

        Raises RuntimeError if the gradients were unscaled since the last `update`. Then they stay as they are.
        """
        # begin solution: divide all, look for inf and NaN
        if self._unscaled:
            raise RuntimeError("unscale_ was called before, without an update since then")
        self._unscaled = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.div_(self._scale)
                    self._overflow |= not bool(parameter.grad.isfinite().all())
        # end solution

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Let the optimizer make its step, unless a gradient overflowed. Return whether it did, True or False.

        - If the gradients were not unscaled since the last `update`, do that first.
        - If unscaling found inf or NaN, the optimizer makes no step, even if clipping has hidden it since.
        - Otherwise call `optimizer.step()` with the gradients as they now are.
        """
        # begin solution: unscale if needed, then step or not
        if not self._unscaled:
            self.unscale_(optimizer)
        if self._overflow:
            return False
        optimizer.step()
        return True
        # end solution

    def update(self) -> None:
        """Adapt the scale at the end of an iteration, and get ready for the next one.

        - After a bad iteration, one in which unscaling found inf or NaN, the scale is multiplied by
          `backoff_factor`.
        - After `growth_interval` good iterations in a row the scale is multiplied by `growth_factor`, and their
          count begins anew. It begins anew after a bad iteration, too.

        A limit of the scale, of 1 or below and of 2**24 or above, is up to you.
        """
        # begin solution: adapt the scale, and forget this iteration
        self._good_iterations = 0 if self._overflow else self._good_iterations + 1
        if self._overflow:
            self._scale *= self._backoff_factor
        elif self._good_iterations == self._growth_interval:
            self._scale *= self._growth_factor
            self._good_iterations = 0
        self._unscaled = self._overflow = False
        # end solution


def train_step(
    model: nn.Module,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    inputs: Tensor,
    targets: Tensor,
    scaler: GradScaler | None = None,
    max_norm: float | None = None,
) -> float:
    """Make one training step on the CPU under autocast with bfloat16, and return the loss, a Python float.

    1. Zero the gradients. The optimizer holds all parameters of the model.
    2. Under `torch.autocast("cpu", dtype=torch.bfloat16)`, one forward pass and then the loss, once each. (The
       outputs may become float32 for the loss.)
    3. Backward from the loss; with a scaler, from the scaled loss. Inside autocast or not is up to you.
    4. With a `max_norm`, clip the (unscaled) gradients of the model to that total 2-norm.
       `torch.nn.utils.clip_grad_norm_` may be used.
    5. The optimizer's step; with a scaler through it, and then one `scaler.update()`.

    The result is the loss itself, not scaled. Afterwards autocast is off again, and parameters and gradients
    are float32 as before (do not convert the model). Weights and losses may differ by 1% from the reference.
    """
    # begin solution: zero, autocast, backward, unscale, clip, step, update
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(inputs), targets)
    (loss if scaler is None else scaler.scale(loss)).backward()
    if max_norm is not None:
        # Clip the real gradients: scaled ones would nearly all be above max_norm.
        if scaler is not None:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()
    return loss.item()
    # end solution
