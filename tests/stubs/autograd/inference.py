"""Three switches for running a model without training it: eval(), no_grad() and inference_mode().

`model.eval()` changes what some layers do (dropout drops nothing, batch norm uses its running statistics),
but graphs are built all the same. `torch.no_grad()` builds no graph, and changes no layer.
`torch.inference_mode()` builds no graph either, is a little faster, and marks the tensors made in it for good:
outside of it such an inference tensor cannot be saved for a backward pass, changed in place or made to require
a gradient. To predict you need eval() and one of the other two, and afterwards everything as it was.

Source: PyTorch documentation, "Autograd mechanics: Locally disabling gradient computation".

Leave the global random state alone. Each ValueError names the argument in its message.
"""

import contextlib
from collections.abc import Iterable, Iterator

import torch
from torch import nn


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[object]:
    """Make a block, `with evaluating(model):`, in which `model` is ready to predict.

    Inside the block every submodule of `model` is in evaluation mode (its `training` is False), and grad mode
    is off (`torch.is_grad_enabled()` is False), by `torch.no_grad()` or by `torch.inference_mode()`.

    After the block, also when an exception ends it (which is passed on), each submodule is in the mode in which
    it was before: a model that was in evaluation mode stays there, and so does a frozen BatchNorm inside a
    training model. Grad mode and inference mode are what they were around the block. Blocks may be nested.
    Parameters, buffers and `requires_grad` do not change.

    `contextlib.contextmanager` turns a generator function with one `yield` into a function that returns a
    context manager: the block runs at the `yield`. You may write a class with `__enter__` and `__exit__`
    instead.
    """
    # TODO: remember each mode, switch, set it back.
    raise NotImplementedError("evaluating: remember each mode, switch, set it back")


def predict(model: nn.Module, loader: Iterable[tuple[torch.Tensor, object]]) -> torch.Tensor:
    """Return the outputs of `model` for all batches of `loader`, concatenated along dimension 0: (n, ...).

    `loader` yields `(inputs, targets)`, tuples or lists; targets are not used. It may be a generator, which has
    no length and can be iterated once. For each batch, in the order of the loader, `model(inputs)` is called
    once (not `model.forward`, which leaves out hooks), with every submodule in evaluation mode and grad mode
    off: a graph that is built and cut off afterwards costs its memory all the same. The last batch may be
    shorter.

    The result is an ordinary tensor without a graph (not an inference tensor), so that something can be trained
    on it. Afterwards all modes are as they were, also when the model or the loader raises; that exception is
    passed on. Parameters, buffers and batches are left alone.

    Raises ValueError if `loader` yields nothing.
    """
    # TODO: run the batches inside of evaluating, then concatenate.
    raise NotImplementedError("predict: run the batches inside of evaluating, then concatenate")


def ordinary(x: torch.Tensor) -> torch.Tensor:
    """Return `x` as a tensor that can be trained on.

    An ordinary tensor comes back itself: the same object, in its graph. For an inference tensor
    (`x.is_inference()`) the result is an ordinary copy: of the same values, shape and dtype, with
    `requires_grad` False, and sharing no memory with `x`. All of this also holds when the call is made inside
    `torch.inference_mode()`, in which `x.clone()` would be an inference tensor again.
    """
    # TODO: x itself, or a copy made outside of inference mode.
    raise NotImplementedError("ordinary: x itself, or a copy made outside of inference mode")
