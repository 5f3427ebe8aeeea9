"""Three switches for running a model without training it: eval(), no_grad() and inference_mode().

`model.eval()` changes what some layers do (dropout, batch norm), but graphs are built all the same.
`torch.no_grad()` builds no graph, and changes no layer. `torch.inference_mode()` builds none either, and marks
its tensors for good: outside of it such an inference tensor cannot be saved for a backward pass, changed in
place or made to require a gradient.

Source: PyTorch documentation, "Autograd mechanics: Locally disabling gradient computation".

What holds for every exercise: docs/every-exercise.md.
"""

import contextlib
from collections.abc import Iterable, Iterator

import torch
from torch import nn


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[object]:
    """Make a block, `with evaluating(model):`, in which `model` is ready to predict.

    Inside the block every submodule is in evaluation mode, and grad mode is off, by `torch.no_grad()` or
    `torch.inference_mode()`.

    After the block, also when an exception ends it, each submodule is in the mode in which it was before: a
    model that was in evaluation mode stays there, and so does a frozen BatchNorm inside a training model. So
    are grad mode and inference mode. Blocks may be nested.

    `contextlib.contextmanager` runs the block at the `yield` of a generator function.
    """
    # begin solution: remember each mode, switch, set it back
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    # finally, because an exception of the block comes out of the yield.
    try:
        with torch.no_grad():
            yield model
    finally:
        for module, training in modes:
            # Not module.train(training): that would also set the modes of the module's children.
            module.training = training
    # end solution


def predict(model: nn.Module, loader: Iterable[tuple[torch.Tensor, object]]) -> torch.Tensor:
    """Return the outputs of `model` for all batches of `loader`, concatenated along dimension 0: (n, ...).

    `loader` yields `(inputs, targets)`, tuples or lists, and may be a generator. `model(inputs)` is called once
    for each batch, in order, with every submodule in evaluation mode and grad mode off: a graph that is built
    and cut off afterwards costs its memory all the same. The last batch may be shorter.

    The result is an ordinary tensor without a graph (not an inference tensor), so that something can be trained
    on it. All modes are put back, also when the model or the loader raises.

    Raises ValueError that names `loader` if it yields nothing.
    """
    # begin solution: run the batches inside of evaluating, then concatenate
    with evaluating(model):
        outputs = [model(inputs) for inputs, _ in loader]
    if not outputs:
        raise ValueError("loader must yield at least one batch, got none")
    return torch.cat(outputs)
    # end solution


def ordinary(x: torch.Tensor) -> torch.Tensor:
    """Return `x` as a tensor that can be trained on.

    An ordinary tensor comes back itself: the same object, in its graph. For an inference tensor
    (`x.is_inference()`) the result is an ordinary copy, with `requires_grad` False, that shares no memory with
    `x`, also when the call is made inside `torch.inference_mode()`, in which `x.clone()` would be an inference
    tensor again.
    """
    # begin solution: x itself, or a copy made outside of inference mode
    if not x.is_inference():
        return x
    # A clone is an inference tensor if it is made in inference mode, whatever x is.
    with torch.inference_mode(False):
        return x.clone()
    # end solution
