"""Changing tensors in place where autograd watches: when it is refused, when it breaks, when it is fine.

`x.add_(1)` changes the memory of x; `x + 1` makes a new tensor. Working in place saves memory, but a graph
may still need the old values to compute a gradient. Autograd therefore counts every change in place
(`x._version`). If a saved tensor has changed since it was saved, backward raises "one of the variables needed
for gradient computation has been modified by an inplace operation". That is good news: the alternative is a
wrong gradient without a word, which is what a detour through `.data` gives you.

Every optimizer changes its parameters in place, so this is among the errors that people search for most.

Source: PyTorch documentation, Autograd mechanics: In-place operations with autograd.

Every function works in float32 and float64, and leaves its arguments, grad mode and the global random state
as they were, except where its own text says otherwise.
"""

from collections.abc import Callable, Iterable

import torch


def in_place_outcome(x: torch.Tensor, forward: Callable[[torch.Tensor], torch.Tensor]) -> str:
    """Predict the outcome of changing `x` in place after it was used, as in these three lines:

        y = forward(x)
        x.add_(1)
        y.sum().backward()

    - `"leaf"`: the change itself is refused, because `x` is a leaf that requires a gradient.
    - `"needed"`: the change is made, and then backward fails, because the graph of `y` has saved `x` or a
      view of it (`x[1:]`, `x.t()`, `x.detach()`: anything that shares its memory).
    - `"safe"`: neither of these. Where `y` does not require a gradient, nothing can fail.

    `x` is floating-point and not a view. It may be a leaf, the result of other operations (which have not
    saved it), or data that does not require a gradient. `x * w` saves `x` for the gradient of `w`, whether
    or not `x` has a gradient of its own.

    Do not run the three lines on `x`. Its values, its version (`x._version`), the graph that it came from,
    and every `.grad`, also that of parameters in `forward`, stay as they were.

    `forward` sees `x` only as its argument; it may be run more than once, or on a copy. It detaches nothing
    but `x` itself. Hint: `torch.autograd.graph.saved_tensors_hooks`.
    """
    # TODO: ask about x, and what forward saves.
    raise NotImplementedError("in_place_outcome: ask about x, and what forward saves")


def sgd_step(parameters: Iterable[torch.Tensor], lr: float) -> None:
    """Make one step of gradient descent, in place: every parameter becomes `p - lr * p.grad`.

    Each parameter stays the same tensor in the same memory, still a leaf, with its `requires_grad` and
    `.grad` as they were. Parameters without a gradient (`p.grad is None`) are left alone. `parameters` may
    be a generator, and grad mode may be on when this is called.

    Autograd has to notice the step: if the backward pass of an older graph needs the old value of a
    parameter, that pass raises autograd's own error ("... has been modified by an inplace operation").
    After a change of `p.data` it would use the new value without a word.

    Write the step yourself: `torch.optim` is not allowed here.
    """
    # TODO: change each parameter in place, under no_grad.
    raise NotImplementedError("sgd_step: change each parameter in place, under no_grad")


def exponential_average(x: torch.Tensor, momentum: float) -> torch.Tensor:
    """Return the exponential moving average of `x` along its first dimension.

        out[0] = x[0]
        out[t] = momentum * out[t - 1] + (1 - momentum) * x[t]

    `x` has the shape (steps, ...), and so has the result; steps may be 0. Gradients reach `x` through every
    step: out[t] depends on all of x[0], ..., x[t]. The result shares no memory with `x`. In-place work on
    tensors of your own is welcome, where autograd allows it.

    Raises ValueError, naming `momentum`, where it is outside 0..1; 0 and 1 themselves are fine.
    """
    # TODO: a state, and a tensor of its own for each step.
    raise NotImplementedError("exponential_average: a state, and a tensor of its own for each step")
