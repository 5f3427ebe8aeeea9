"""A model with parts, blocks of evaluating, and inference tensors."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn


def modes(model: nn.Module) -> dict[str, bool]:
    return {name: part.training for name, part in model.named_modules()}


def autograd() -> dict[str, bool]:
    return {
        "inference mode": torch.is_inference_mode_enabled(),
        "grad mode": torch.is_grad_enabled(),
    }


# The modes and rows of each call of a Model. The list is in this module, because no attribute of a model
# should lead to it.
CALLS: list[dict[str, Any]] = []


class Model(nn.Module):
    """Map x (n, 3) to (n, *shape), with dropout and batch norm."""

    def __init__(self, width: int, shape: Sequence[int]) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.head = nn.Linear(4, width)
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        CALLS.append({"training": self.training, **autograd(), "rows": len(x)})
        output: Tensor = self.head(self.body(x))
        return output.reshape(len(x), *self.shape)


@torch.no_grad()
def model(
    module: Any,
    seed: int,
    *,
    width: int = 2,
    dtype: str = "float32",
    shape: Sequence[int] = (2,),
    training: Sequence[str] = (),
) -> Model:
    """Make a Model with random numbers, partly frozen, with old gradients and a hook that doubles the output.

    Each row of the output has `width` numbers, in this `shape`. The parts in `training` ("" is the model
    itself) are in training mode.
    """
    generator = torch.Generator().manual_seed(seed)
    made = Model(width, shape).to(getattr(torch, dtype))
    for tensor in (*made.parameters(), made.get_buffer("body.1.running_mean")):
        tensor.normal_(generator=generator)
    made.get_buffer("body.1.running_var").uniform_(0.5, 1.5, generator=generator)
    for name, part in made.named_modules():
        part.training = name in training
    for parameter in made.parameters():
        parameter.grad = torch.ones_like(parameter)
    made.head.weight.requires_grad_(False)
    made.register_forward_hook(lambda layer, inputs, output: output * 2)
    return made


def broken(module: Any, model: Model) -> Model:
    """Make the model raise an error after its first part, and return it."""

    def fail(layer: Any, inputs: Any, output: Any) -> None:
        raise RuntimeError("the model broke")

    model.body.register_forward_hook(fail)
    return model


# --- blocks ----------------------------------------------------------------------------------------


def block(module: Any, model: Model) -> dict[str, Any]:
    """Return the modes inside a block of evaluating, and after it."""
    with module.evaluating(model):
        inside, grad = modes(model), torch.is_grad_enabled()
    return {"inside": inside, "grad": grad, "after": modes(model)}


def block_under(module: Any, model: Model, around: str) -> dict[str, bool]:
    """Return grad mode and inference mode after a block of evaluating inside `torch.no_grad()` or the like."""
    with getattr(torch, around)():
        with module.evaluating(model):
            pass
        return autograd()


def nested_blocks(module: Any, model: Model) -> dict[str, Any]:
    """Return the modes after the inner and after the outer of two blocks."""
    with module.evaluating(model):
        with module.evaluating(model):
            pass
        after_inner = modes(model)
    return {"after inner": after_inner, "after outer": modes(model)}


def broken_block(module: Any, model: Model, error: str, text: str) -> dict[str, Any]:
    """Return the message that comes out of a block that raises this error, and the modes afterwards.

    `error` is "ValueError" or "KeyboardInterrupt".
    """
    problem, left = getattr(builtins, error)(text), "nothing"
    try:
        with module.evaluating(model):
            raise problem
    except (ValueError, KeyboardInterrupt) as caught:
        left = str(caught.args[0]) if caught is problem else "another exception"
    return {"left": left, "after": modes(model), "autograd": autograd()}


# --- loaders and tensors ---------------------------------------------------------------------------


def calls(module: Any, model: Model, batches: list[Any]) -> dict[str, list[Any]]:
    """Return how predict calls the model: all modes that occur, and the number of rows in each call."""
    CALLS.clear()
    module.predict(model, batches)
    modes = {name: sorted({call[name] for call in CALLS}) for name in ("training", "grad mode")}
    return {**modes, "rows": [call["rows"] for call in CALLS]}


def generator(module: Any, batches: list[Any]) -> Iterator[Any]:
    """A loader without a length, which can be iterated once."""
    yield from batches


def failing_loader(module: Any, batches: list[Any]) -> Iterator[Any]:
    """A loader that raises an error after these batches."""
    yield from batches
    raise LookupError("the loader broke")


def copy_of(module: Any, x: Tensor, inside: bool) -> dict[str, Any]:
    """Return the result of ordinary for an inference copy of x, called inside of inference mode or outside."""
    with torch.inference_mode():
        marked = x.clone()
    with torch.inference_mode(inside):
        copy = module.ordinary(marked)
    # Call Tensor's own methods, because a subclass could override them. Empty tensors have no memory.
    shared = Tensor.data_ptr(copy) == marked.data_ptr() and x.numel() > 0
    return {
        "values": copy,
        "is_inference()": Tensor.is_inference(copy),
        "requires_grad": copy.requires_grad,
        "shares memory with x": shared,
    }


def comes_back(module: Any, x: Tensor, inside: bool) -> dict[str, bool]:
    """Return whether ordinary, called inside of inference mode or outside, returns the tensor itself."""
    leaf = x.clone().requires_grad_()
    tensors = {"data": x, "a leaf": leaf, "a result": leaf * 1}
    with torch.inference_mode(inside):
        return {kind: module.ordinary(tensor) is tensor for kind, tensor in tensors.items()}
