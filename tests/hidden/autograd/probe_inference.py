"""A model that reports how it is run, blocks of evaluating, and tensors of all kinds, raw."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn


class Model(nn.Module):
    """(n, 3) to (n, ...), with dropout and batch norm; it reports each call, and may fail in one."""

    def __init__(self, state: dict[str, Tensor], shape: list[int]) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.head = nn.Linear(4, len(state["head.bias"]))
        self.shape, self.fails_at = shape, -1
        self.calls: list[dict[str, Any]] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls.append({**snapshot(self), "rows": len(x)})
        if len(self.calls) == self.fails_at:
            raise RuntimeError("the model broke")
        output: Tensor = self.head(self.body(x))
        return output.reshape(len(x), *self.shape)


def model(
    module: Any, state: Any, shape: Any, *, training: Any, frozen: Any, fails_at: int = -1
) -> Model:
    """A Model of this state, some parts of it in training mode, whose hook doubles the output."""
    made = Model(state, shape).to(state["head.bias"].dtype)
    made.load_state_dict(state)
    made.fails_at = fails_at
    for name, part in made.named_modules():
        part.training = name in training
    for name, parameter in made.named_parameters():
        parameter.requires_grad_(name not in frozen)
        parameter.grad = torch.ones_like(parameter)
    made.register_forward_hook(lambda _, __, output: output * 2)
    return made


def snapshot(model: nn.Module) -> dict[str, Any]:
    """The modes of now."""
    return {
        "training": {name: part.training for name, part in model.named_modules()},
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
    }


def blocks(
    module: Any, model: Model, parts: list[str], around: str = "", fails: str = "", text: str = ""
) -> dict[str, Any]:
    """The modes before, inside and after nested blocks of evaluating, one for each part's name."""
    shots, raised = [], None
    error = getattr(builtins, fails or "Exception")(text)

    def nest(names: list[str]) -> None:
        if not names and fails:
            raise error
        if names:
            try:
                with module.evaluating(model.get_submodule(names[0])):
                    shots.append(snapshot(model))
                    nest(names[1:])
            finally:
                shots.append(snapshot(model))

    with getattr(torch, around)() if around else contextlib.nullcontext():
        shots.append(snapshot(model))
        try:
            nest(parts)
        except BaseException as caught:
            if not fails or isinstance(caught, NotImplementedError):
                raise
            raised = caught.args[0] if caught is error else False
    return {"shots": shots, "raised": raised}


def batches(module: Any, batches: list[Any], fails: bool = False) -> Iterator[Any]:
    """A loader of these batches, without a length, which may fail after them."""
    yield from batches
    if fails:
        raise LookupError("the loader broke")


def predicted(module: Any, model: Model, loader: Any, grad: bool = True) -> dict[str, Any]:
    """How the model was run in a call of predict with grad mode on or off, and how that is then."""
    with torch.set_grad_enabled(grad):
        module.predict(model, loader)
        return {"calls": model.calls, "grad": torch.is_grad_enabled()}


def ordinary_of(module: Any, x: Tensor, kind: str, inside: bool) -> dict[str, Any]:
    """What `ordinary` makes of a tensor like x of this kind, in inference mode if `inside`."""
    if kind == "inference":
        with torch.inference_mode():
            stored = x.untyped_storage().nbytes() // x.element_size()
            memory = x.as_strided((stored,), (1,), 0).clone()
            x = memory.as_strided(x.size(), x.stride(), x.storage_offset())
    elif kind != "data":
        x.requires_grad_()
        x = x * 1 if kind == "result" else x
    with torch.inference_mode() if inside else contextlib.nullcontext():
        y = module.ordinary(x)
    report = {
        "value": y,
        "same": y is x,
        "requires_grad": x.requires_grad,
        "graph": bool(x.grad_fn),
    }
    if isinstance(y, Tensor):
        shared = y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        report |= {"inference": y.is_inference(), "learns": y.requires_grad, "shared": shared}
    return report
