"""Three switches for running a model without training it: eval(), no_grad() and inference_mode().

`model.eval()` changes what some layers do (dropout drops nothing, batch norm uses its running statistics),
and builds graphs all the same. `torch.no_grad()` builds none, and changes no layer. `torch.inference_mode()`
builds none either, is a little faster, and marks the tensors made in it for good: outside of it such an
inference tensor cannot be saved for a backward pass, changed in place or made to require a gradient. To
predict you need eval() and one of the other two, and afterwards everything as it was.

Source: PyTorch documentation, "Autograd mechanics: Locally disabling gradient computation".

You neither seed the global random state nor draw from it. Each ValueError names the argument in its message.
"""

import contextlib
from collections.abc import Iterable, Iterator

import torch
from torch import nn


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[object]:
    """Make a block, `with evaluating(model):`, in which `model` is ready to predict.

    Inside the block every submodule of `model` is in evaluation mode (its `training` is False), and grad mode
    is off (`torch.is_grad_enabled()` is False). Whether you use `torch.no_grad()` or `torch.inference_mode()`
    is up to you, and so is what `with evaluating(model) as ...` gives.

    At the end of the block, also where an exception ends it (which is passed on), each submodule is in the mode
    in which it was before: a model that was in evaluation mode stays there, and so does a frozen BatchNorm
    inside a training model. Grad mode and inference mode are what they were around the block, which may itself
    stand under no_grad or in inference mode. Blocks may be nested, of one model, of its parts, or of others.

    Parameters, buffers and `requires_grad` are not changed, inside the block neither.

    `contextlib.contextmanager` turns a generator function with one `yield` into a function that returns a
    context manager: the block runs at the `yield`. A class with `__enter__` and `__exit__` in its place is as
    good.
    """
    # TODO: remember each mode, switch, set it back.
    raise NotImplementedError("evaluating: remember each mode, switch, set it back")


def predict(model: nn.Module, loader: Iterable[tuple[torch.Tensor, object]]) -> torch.Tensor:
    """Return the outputs of `model` for all batches of `loader`, concatenated along dimension 0: (n, ...).

    `loader` yields `(inputs, targets)`, tuples or lists; targets are not used. It may be a generator: it is
    iterated once, and may have no length. For each batch, in the order of the loader, `model(inputs)` is called
    once (not `model.forward`, which leaves out hooks), with every submodule in evaluation mode and while grad
    mode is off: a graph that is built and cut off afterwards costs its memory all the same. An output has one
    or more dimensions, the last batch may be shorter, and the result has the dtype of the outputs.

    The result is an ordinary tensor without a graph (no inference tensor), so that something can be trained on
    it. Afterwards all modes are as they were, each submodule's, grad mode and inference mode, also where the
    model or the loader raises; that exception is passed on. Parameters, buffers and batches are left alone.

    Raises ValueError if `loader` yields nothing.
    """
    # TODO: run the batches inside of evaluating, then concatenate.
    raise NotImplementedError("predict: run the batches inside of evaluating, then concatenate")


def ordinary(x: torch.Tensor) -> torch.Tensor:
    """Return `x` as a tensor that can be trained on.

    If `x` is no inference tensor, that is `x` itself: the same object, in its graph. If it is one
    (`x.is_inference()`; it requires no gradient then), it is a copy that is none: of the same values, shape and
    dtype, for any shape, strides and dtype of `x`, with `requires_grad` False, and sharing no memory with `x`.
    All of this holds inside `torch.inference_mode()`, too, in which `x.clone()` would be an inference tensor
    again.
    """
    # TODO: x itself, or a copy made outside of inference mode.
    raise NotImplementedError("ordinary: x itself, or a copy made outside of inference mode")
