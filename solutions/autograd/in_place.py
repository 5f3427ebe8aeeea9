"""Changing tensors in place where autograd watches: when it is refused, when it breaks, when it is fine.

`x.add_(1)` changes the memory of x; `x + 1` makes a new tensor. In place saves memory, and it is a trap:
a graph may still need the old values to compute a gradient. Autograd counts every change in place
(`x._version`), and where a saved tensor has changed since, backward raises "one of the variables needed for
gradient computation has been modified by an inplace operation". That is good news: the alternative is a
wrong gradient without a word, and that is what a detour by `.data` gets you.

Why it matters: every optimizer changes its parameters in place, every running statistic wants to, and
"modified by an inplace operation" is among the errors that people search for most.

Source: PyTorch documentation, Autograd mechanics: In-place operations with autograd.

These rules hold for everything that you write here:

- It works in float32 and in float64; a tensor that comes back has the dtype and device of `x`.
- It leaves what it is given as it found it, but for what its own text says.
- It does not touch the global random state, neither by seeding nor by drawing from it, and grad mode is
  afterwards what it was before.
- Each ValueError names the argument that is wrong.
"""

from collections.abc import Callable, Iterable

import torch


def in_place_outcome(x: torch.Tensor, forward: Callable[[torch.Tensor], torch.Tensor]) -> str:
    """Tell what would come of changing `x` in place after it was used.

    That is, what these three lines would come to:

        y = forward(x)
        x.add_(1)
        y.sum().backward()

    - `"leaf"`: the change itself is refused, as `x` is a leaf that requires a gradient.
    - `"needed"`: the change is made, and then backward fails, as the graph of `y` has saved `x` or a
      view of it (`x[1:]`, `x.t()`, `x.detach()`, ...: whatever shares its memory).
    - `"safe"`: neither of these, also where `y` does not require a gradient at all.

    `x` is floating-point and no view. It may be a leaf, the result of other operations (which have not
    saved it), or data that does not require a gradient. Mind the last one: `x * w` saves `x` for the
    gradient of `w`, whether or not `x` has a gradient of its own.

    Nothing happens to `x`: its values, its version (`x._version`) and the graph that it came from are as
    they were, and no `.grad` changes, that of parameters which `forward` uses included. So the three lines
    are not run on `x`.

    `forward` changes nothing, sees `x` only as its argument, and computes only what `y` depends on. It may
    be run more than once, or on a copy. Hint: `torch.autograd.graph.saved_tensors_hooks`. Free: a
    `forward` that uses `.data`.
    """
    # begin solution: ask about x, and what forward saves
    if x.is_leaf and x.requires_grad:
        return "leaf"
    # A view is another object that may begin elsewhere, but in the same storage.
    saved: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor.untyped_storage().data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = forward(x)
    # (x * x).detach() has saved x for a graph that y is no part of.
    needed = y.requires_grad and x.untyped_storage().data_ptr() in saved
    return "needed" if needed else "safe"
    # end solution


def sgd_step(parameters: Iterable[torch.Tensor], lr: float) -> None:
    """Make one step of gradient descent, in place: every parameter becomes `p - lr * p.grad`.

    Each parameter is afterwards the same tensor in the same memory, still a leaf, and its `requires_grad`
    and `.grad` are as they were. Parameters without a gradient (`p.grad is None`) are left alone.
    `parameters` may be a generator, and grad mode may be on when this is called.

    Autograd has to notice the step: if the old value of a parameter is needed by the backward pass of an
    older graph, that pass raises autograd's own error ("... has been modified by an inplace operation").
    Behind its back, with `p.data`, it would use the new value without a word.

    Write it yourself: `torch.optim` is not allowed here. Free: a frozen parameter that has a gradient.
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

    `x` has the shape (steps, ...), with any shape behind `steps`; steps may be 0. The result has the shape
    of `x`. Gradients reach `x`, be it a leaf or a result, through every step: out[t] depends on all of
    x[0], ..., x[t]. `x` stays as it is, and the result shares no memory with it.

    A `momentum` outside 0..1 is a ValueError, whatever `x` is; 0 and 1 themselves are fine.

    In-place work on tensors of your own is welcome, where autograd allows it.
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
