"""The student's side of a function that the solution replaces. A stub here answers like the judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from grader.sandbox.inside.stand_in import Ask, stand_in
from grader.sandbox.wire.messages import (
    StandInAnswer,
    StandInBackward,
    StandInCall,
    StandInRequest,
)
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.unpacking import Unpacking


def received(packing: Packing) -> Unpacking:
    """Return packed values as the other end reads them."""
    return Unpacking(bytearray(b"".join(packing.blobs)))


class Judge:
    """Answers with the result of a function, which has a graph if the caller wants gradients."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.asked: list[StandInRequest] = []
        self._graph: tuple[torch.Tensor, list[torch.Tensor]] | None = None

    def __call__(self, request: StandInRequest, sent: Packing) -> tuple[StandInAnswer, Unpacking]:
        self.asked.append(request)
        read, answer = received(sent), Packing()
        if isinstance(request, StandInBackward):
            (gradient,) = read.unpack(request.gradients)
            assert self._graph is not None
            output, inputs = self._graph
            packed = answer.pack(list(torch.autograd.grad(output, inputs, gradient)))
            return StandInAnswer(packed), received(answer)
        arguments, keywords = read.unpack(request.arguments), read.unpack(request.keywords)
        inputs = [read.tensors[place].requires_grad_() for place in request.wants]
        try:
            value = self._function(*arguments, **keywords)
        except ArithmeticError as error:
            return StandInAnswer(raised=(type(error).__name__, str(error))), received(answer)
        self._graph = (value, inputs) if inputs else None
        packed = answer.pack(value.detach() if isinstance(value, torch.Tensor) else value)
        made = (
            StandInAnswer(packed, graph=1, differentiable=(0,)) if inputs else StandInAnswer(packed)
        )
        return made, received(answer)


def scale(x: torch.Tensor, factor: float = 3.0) -> torch.Tensor:
    if factor == 0:
        raise ZeroDivisionError("factor is 0")
    return x * factor


def function_of(judge: Ask) -> Callable[..., Any]:
    return stand_in("scale", judge)


def test_a_call_is_answered_with_the_value_of_the_solution() -> None:
    judge = Judge(scale)
    replaced = function_of(judge)
    assert replaced.__name__ == "scale"
    assert replaced(torch.tensor([1.0, 2.0]), factor=2.0).tolist() == [2.0, 4.0]
    (request,) = judge.asked
    assert isinstance(request, StandInCall)
    assert (request.function, request.wants) == ("scale", ())


def test_plain_data_is_returned_as_it_is() -> None:
    replaced = function_of(Judge(lambda *values: {"sum": sum(values), "all": list(values)}))
    assert replaced(1, 2.5) == {"sum": 3.5, "all": [1, 2.5]}


def test_gradients_flow_through_a_stand_in() -> None:
    judge = Judge(scale)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (function_of(judge)(x) * torch.tensor([1.0, 10.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3.0, 30.0]
    assert [type(request) for request in judge.asked] == [StandInCall, StandInBackward]


def test_gradients_are_requested_only_for_tensors_that_require_them() -> None:
    judge = Judge(lambda a, b: a * b)
    left, right = torch.ones(2), torch.ones(2, requires_grad=True)
    function_of(judge)(left, right).sum().backward()
    (first, _) = judge.asked
    assert isinstance(first, StandInCall) and first.wants == (1,)
    assert right.grad is not None and left.grad is None


def test_without_gradients_there_is_no_graph() -> None:
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert not function_of(Judge(scale))(x).requires_grad


def test_a_stand_in_raises_like_the_solution() -> None:
    with pytest.raises(ZeroDivisionError, match="factor is 0"):
        function_of(Judge(scale))(torch.ones(1), 0)


def test_a_gradient_of_a_gradient_is_refused_by_torch() -> None:
    x = torch.ones(2, requires_grad=True)
    value = function_of(Judge(scale))(x)
    (gradient,) = torch.autograd.grad((value**2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
