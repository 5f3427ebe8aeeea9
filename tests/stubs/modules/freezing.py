"""Count the parameters of a model, freeze some of them, and sort the rest into groups for an optimizer.

Fine-tuning begins with three questions. How many parameters are there, and how many of them learn?
Which of them should stay as they are? And which of those that learn may weight decay pull towards zero?

`model.named_parameters()` answers half of each: it gives every parameter of the model and of all of its
submodules once, under a dotted name such as `encoder.0.weight`. The other half is yours.

A model is any `nn.Module`, and its parameters may have any shape and dtype. The three functions change
nothing of it but what the text names.

Source: Loshchilov and Hutter (2019), "Decoupled Weight Decay Regularization", for weight decay;
torch.nn.Module's documentation for the names.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn


def count_parameters(model: nn.Module) -> tuple[int, int]:
    """Count the elements of all parameters, and of those that learn: `(total, trainable)`, two ints.

    A weight of shape (3, 4) counts 12. Trainable are the parameters whose `requires_grad` is True.

    - A parameter that several modules share (tied weights) counts once.
    - Buffers, such as the running mean of a batch norm, are not parameters and do not count.
    - A model without parameters gives (0, 0).
    """
    # TODO: add up the elements.
    raise NotImplementedError("count_parameters: add up the elements")


def freeze(model: nn.Module, names: Sequence[str]) -> list[str]:
    """Freeze the parameters that `names` cover, and return the names of all of these.

    `names` is a list or tuple of dotted names. A name covers the parameter of exactly that name, and all
    parameters below the module of that name: "encoder" covers `encoder.weight` and `encoder.0.bias`, but
    neither `encoder2.weight` nor `my.encoder.weight`.

    Every covered parameter has `requires_grad` False afterwards, and its `.grad` is None: an optimizer that
    still holds it would go on moving it, by an old gradient or by weight decay. The other parameters keep
    their `.grad` and `requires_grad`, so that one that was frozen before stays frozen.

    Returns the names of the covered parameters as `model.named_parameters()` gives them, in its order, each
    once, those that were frozen before included. An empty `names` freezes nothing and gives [].

    Raises ValueError if one of the names covers no parameter (a typing error, a module without parameters,
    a buffer). The message contains the name, and nothing has changed then, whatever the other names are.
    """
    # TODO: find what each name covers, then freeze it.
    raise NotImplementedError("freeze: find what each name covers, then freeze it")


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Split the parameters that learn into those that decay and those that do not.

    Weight decay is for the matrices that mix features. Pulling a bias, or the scale of a normalization,
    towards zero helps nothing. The number of dimensions tells them apart. Returns a list of exactly two
    dicts, each with exactly two keys, ready for `torch.optim.AdamW(parameter_groups(model, 0.01))`:

    1. `{"params": [...], "weight_decay": weight_decay}`: parameters of two or more dimensions;
    2. `{"params": [...], "weight_decay": 0.0}`: those of fewer: biases, weights of norms, single gains.

    Only the number of dimensions counts, not the name of a parameter or the kind of its module: a bias of
    shape (3, 4) decays.

    - `"params"` is a list of the Parameter objects themselves, in the order of `model.parameters()`.
    - Only parameters that require grad are in it, and each one once, tied weights too.
    - A group without parameters is there as well, with an empty list.

    Raises ValueError, with a message that names `weight_decay`, if `weight_decay` is negative; 0 is fine.
    """
    # TODO: sort the trainable parameters by their dimensions.
    raise NotImplementedError("parameter_groups: sort the trainable parameters by their dimensions")
