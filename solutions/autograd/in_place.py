"""Changing tensors in place where autograd watches: when it is refused, when it breaks, when it is fine.

`x.add_(1)` changes the memory of x, but a graph may still need the old values. So autograd counts every change
in place (`x._version`). If a saved tensor has changed since it was saved, backward raises "one of the variables
needed for gradient computation has been modified by an inplace operation". The alternative, which a detour
through `.data` gives you, is a wrong gradient without a word.

Source: PyTorch documentation, Autograd mechanics: In-place operations with autograd.

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable, Iterable

import torch


def in_place_outcome(x: torch.Tensor, forward: Callable[[torch.Tensor], torch.Tensor]) -> str:
    """Predict the outcome of changing `x` in place after it was used, as in these three lines:

        y = forward(x)
        x.add_(1)
        y.sum().backward()

    - `"leaf"`: the change itself is refused, because `x` is a leaf that requires a gradient.
    - `"needed"`: the change is made, and then backward fails, because the graph of `y` has saved `x` or a view
      of it (`x[1:]`, `x.t()`, `x.detach()`: anything that shares its memory).
    - `"safe"`: neither of these, as where `y` does not require a gradient.

    `x` is not a view. It may be a leaf, a result, or data without a gradient: `x * w` saves `x` for the
    gradient of `w` all the same.

    Do not run the three lines on `x`: its values, version and graph, and every `.grad`, also that of parameters
    in `forward`, stay as they were. `forward` sees `x` only as its argument, and may be run more than once, or
    on a copy; it detaches nothing but `x` itself. `torch.autograd.graph.saved_tensors_hooks` helps.
    """
    # begin solution: ask about x, and what forward saves
    if x.is_leaf and x.requires_grad:
        return "leaf"
    # A view is another object and may begin elsewhere, but has the same storage.
    saved: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor.untyped_storage().data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = forward(x)
    # (x * x).detach() has saved x for a graph that does not include y.
    needed = y.requires_grad and x.untyped_storage().data_ptr() in saved
    return "needed" if needed else "safe"
    # end solution


def sgd_step(parameters: Iterable[torch.Tensor], lr: float) -> None:
    """Make one step of gradient descent, in place: every parameter becomes `p - lr * p.grad`.

    Each parameter stays the same tensor in the same memory, still a leaf, with its `requires_grad` and `.grad`.
    Those whose `.grad` is None are left alone. Grad mode may be on.

    Autograd has to notice the step: a backward pass of an older graph that needs the old value raises
    autograd's own error, as it would not after a change of `p.data`.

    Not allowed: `torch.optim`.
    """
    # begin solution: change each parameter in place, under no_grad
    with torch.no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.sub_(lr * parameter.grad)
    # end solution


def exponential_average(x: torch.Tensor, momentum: float) -> torch.Tensor:
    """Return the exponential moving average of `x` along its first dimension.

        out[0] = x[0]
        out[t] = momentum * out[t - 1] + (1 - momentum) * x[t]

    `x` and the result have the shape (steps, ...); steps may be 0. Gradients reach `x` through every step. The
    result shares no memory with `x`.

    Raises ValueError that names `momentum` if it is outside 0..1 (0 and 1 are fine).
    """
    # begin solution: a state, and a tensor of its own for each step
    if not 0 <= momentum <= 1:
        raise ValueError(f"momentum must be between 0 and 1, not {momentum}")
    if len(x) == 0:
        return x.clone()
    # A new tensor each time: one that is changed in place would be every entry of the list.
    averages = [x[0]]
    for row in x[1:]:
        averages.append(momentum * averages[-1] + (1 - momentum) * row)
    return torch.stack(averages)
    # end solution
