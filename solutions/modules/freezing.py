"""Count the parameters of a model, freeze some of them, and sort the rest into groups for an optimizer.

Fine-tuning begins with three questions: how many parameters learn, which of them should stay as they are, and
which may weight decay pull towards zero?

Source: Loshchilov and Hutter (2019), "Decoupled Weight Decay Regularization"; PyTorch documentation,
torch.nn.Module.

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn


def count_parameters(model: nn.Module) -> tuple[int, int]:
    """Count the elements of all parameters, and of those that learn: `(total, trainable)`, two ints.

    A weight of shape (3, 4) counts 12. Trainable are the parameters whose `requires_grad` is True. A parameter
    that several modules share (tied weights) counts once; buffers do not count.
    """
    # begin solution: add up the elements
    # parameters() yields a shared parameter once.
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    return sum(size for size, _ in sizes), sum(size for size, learns in sizes if learns)
    # end solution


def freeze(model: nn.Module, names: Sequence[str]) -> list[str]:
    """Freeze the parameters that `names` cover, and return the names of all of these.

    `names` is a list or tuple. A name covers the parameter of exactly that dotted name, and all parameters
    below the module of that name: "encoder" covers `encoder.weight` and `encoder.0.bias`, but neither
    `encoder2.weight` nor `my.encoder.weight`.

    Every covered parameter has `requires_grad` False afterwards, and its `.grad` is None: an optimizer that
    still holds it would go on moving it. The other parameters stay as they are, frozen ones frozen.

    Returns the names of the covered parameters as `model.named_parameters()` gives them, in its order, each
    once, those that were frozen before included. An empty `names` gives [].

    Raises ValueError, with the name in its message, if a name covers no parameter (a typing error, a buffer).
    Nothing has changed then.
    """
    # begin solution: find what each name covers, then freeze it
    parameters = dict(model.named_parameters())
    covered = set()
    for name in names:
        # The dot makes the difference between encoder.weight and encoder2.weight.
        below = {key for key in parameters if key == name or key.startswith(f"{name}.")}
        if not below:
            raise ValueError(f"names: {name!r} covers no parameter of the model")
        covered |= below
    # Freeze only now, when all names are known to be valid.
    frozen = [key for key in parameters if key in covered]
    for key in frozen:
        parameters[key].requires_grad_(False)
        # SGD skips parameters without a gradient, not parameters that require none.
        parameters[key].grad = None
    return frozen
    # end solution


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Split the parameters that learn into those that decay and those that do not.

    Weight decay is for the matrices that mix features; pulling a bias or the scale of a normalization towards
    zero helps nothing. The number of dimensions tells them apart, not the name or the kind of module. Returns a
    list of exactly two dicts with exactly two keys, ready for `torch.optim.AdamW`:

    1. `{"params": [...], "weight_decay": weight_decay}`: parameters of two or more dimensions;
    2. `{"params": [...], "weight_decay": 0.0}`: those of fewer.

    `"params"` is a list, perhaps empty, of the Parameter objects themselves that require grad, in the order of
    `model.parameters()`, each once, tied weights too.

    Raises ValueError that names `weight_decay` if it is negative; 0 is fine.
    """
    # begin solution: sort the trainable parameters by their dimensions
    if weight_decay < 0:
        raise ValueError(f"weight_decay must not be negative, got {weight_decay}")
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in learning if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in learning if p.dim() < 2], "weight_decay": 0.0},
    ]
    # end solution
