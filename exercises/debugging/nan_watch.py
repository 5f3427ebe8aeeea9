"""Where the first NaN comes from.

A sum or a product with a NaN is NaN, too, and after one optimizer step the whole model is. The loss shows that
it happened, not where: four tools look earlier.

"Not finite" means that there is an inf, a -inf or a NaN anywhere in the tensor. Tensors of integers or booleans
and empty tensors are finite, and so are large numbers, though their sum may overflow.

Source: PyTorch documentation, torch.nn.Module.register_forward_hook, torch.Tensor.register_hook,
torch.autograd.set_detect_anomaly.

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


def gradient_norms(model: nn.Module) -> dict[str, float | None]:
    """Measure the gradient of each parameter, as the last backward pass left it in `.grad`.

    Returns a dict with an entry for every one of `model.named_parameters()`, in that order: the L2 norm of its
    `.grad`, a Python float, which may be inf or NaN; None where `.grad` is None.
    """
    # TODO: the norm of each gradient.
    raise NotImplementedError("gradient_norms: the norm of each gradient")


def first_non_finite(model: nn.Module, *inputs: Any) -> str | None:
    """Call `model(*inputs)` once, with hooks; return the name of the first module whose output is not finite.

    The name is as in `model.named_modules()`, "" for the model itself; None where every output is finite.

    - First in the order in which the modules return: a child comes before its container. A container whose own
      arithmetic spoils the values is named where its children's outputs are finite.
    - An output counts as it is at the moment when its module returns it: a later layer that works in place, as
      `nn.ReLU(inplace=True)`, may write over it.
    - An output is a tensor, or has tensors in tuples, lists and dicts, also in one another; other values in
      them are ignored.
    - If the inputs are not finite, the result is the first module that passes this on.
    - The model runs in its current mode. You may break off at the first such output.

    Every module calls its children as `child(x)`, and no module is in the model twice.
    """
    # TODO: a forward hook on each module, and none left.
    raise NotImplementedError("first_non_finite: a forward hook on each module, and none left")


@contextmanager
def watch_gradients(model: nn.Module) -> Iterator[None]:
    """Raise in the backward pass that brings a gradient which is not finite, while a `with` block runs.

        with watch_gradients(model):
            loss_fn(model(x), y).backward()   # RuntimeError: the gradient of head.weight is not finite

    In the block, a backward pass that brings such a gradient to a trainable parameter of the model raises a
    RuntimeError (or a subclass of it), in this backward pass and not after it. Its message has the name of the
    parameter that the backward pass reaches first, and no other parameter's. That is one of the module nearest
    to the loss; among the parameters of one module it may be any.

    Frozen parameters are passed over. Finite gradients are left as they are, over any number of backward
    passes. None of your hooks stays after the block, also after an error.

    What `.grad` holds after the error is up to you.
    """

    # TODO: a hook on each trainable parameter, and none left.
    raise NotImplementedError("watch_gradients: a hook on each trainable parameter, and none left")


def backward_nan(closure: Callable[[], Tensor]) -> str | None:
    """Find the backward function that returned a NaN first.

    Calls `closure` once, which computes a loss and returns it, and then `.backward()` of this loss. Returns the
    name of the first backward function that returned a NaN, as PyTorch's anomaly detection gives it
    ("SqrtBackward0"); None if none did. An inf alone is not a NaN.

    Anomaly detection raises a RuntimeError: "Function 'SqrtBackward0' returned nan values in its 0th output."
    You may use it, or hooks of your own on the nodes of the graph. It is afterwards on or off as it was, also
    after an error. All other errors, of the closure and of the backward pass, come through.
    """
    # TODO: run backward under anomaly detection.
    raise NotImplementedError("backward_nan: run backward under anomaly detection")
