"""Functions of the solution in place of a student's own; the judge answers each call.

As teachers carry an error forward, a mistake in an earlier function must not cost the points of a later one
that is right. The student's code calls the function as before. Arguments, results and gradients travel over the
wire, and the solution runs in a sandbox of its own. Only plain data can travel; other calls raise.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

from grader.sandbox.private import keep_builtins
from grader.sandbox.wire.messages import (
    StandInAnswer,
    StandInBackward,
    StandInCall,
    StandInRequest,
)
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.unpacking import Unpacking

if TYPE_CHECKING:
    import torch

keep_builtins(globals())

Ask = Callable[[StandInRequest, Packing], tuple[StandInAnswer, Unpacking]]


def stand_in(name: str, ask: Ask) -> Callable[..., Any]:
    """Return a function of this name whose calls the judge answers.

    It raises the same builtin exceptions as the solution.
    """

    def function(*arguments: Any, **keywords: Any) -> Any:
        packing = Packing()
        packed = packing.pack(list(arguments)), packing.pack(keywords)
        torch = sys.modules.get("torch")
        differentiable = torch is not None and torch.is_grad_enabled()
        wants = tuple(
            i for i, tensor in enumerate(packing.tensors) if differentiable and tensor.requires_grad
        )
        inputs = [packing.tensors[index] for index in wants]
        answer, unpacking = ask(StandInCall(name, *packed, wants), packing)
        if answer.raised is not None:
            type_name, text = answer.raised
            raise getattr(builtins, type_name)(text)
        value = unpacking.unpack(answer.value)
        if answer.graph is not None:
            outputs = [unpacking.tensors[index] for index in answer.differentiable]
            _attach(ask, answer.graph, outputs, inputs)
        return value

    function.__name__ = function.__qualname__ = name
    return function


def _attach(ask: Ask, graph: int, outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> None:
    """Turn these outputs in place into results of an autograd node whose backward asks the judge."""
    torch = sys.modules["torch"]

    def forward(ctx: Any, *_inputs: Any) -> tuple[Any, ...]:
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    def backward(_ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        packing = Packing()
        answer, unpacking = ask(StandInBackward(graph, packing.pack(list(gradients))), packing)
        if answer.raised is not None:
            raise RuntimeError(answer.raised[1])
        return tuple(unpacking.unpack(answer.value))

    once = torch.autograd.function.once_differentiable
    methods = {"forward": staticmethod(forward), "backward": staticmethod(once(backward))}
    type("StandIn", (torch.autograd.Function,), methods).apply(*inputs)  # type: ignore[attr-defined]


# The code that packs and unpacks values; it may use names that an exercise forbids to its callers.
OWN_CODE = frozenset(
    constant
    for function in (stand_in, _attach)
    for constant in function.__code__.co_consts
    if isinstance(constant, CodeType)
)
