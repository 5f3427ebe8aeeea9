"""Answers of a forged sandbox: replayed from a tape of another run, or a constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
import torch

from grader.judge.assignment import Forgery
from grader.judge.forgery import Tape, forge_of, forged, taped
from grader.sandbox.client import Output, Sandbox, SandboxSource
from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.channel import ChannelClosed
from grader.sandbox.wire.messages import (
    Build,
    Built,
    Call,
    Load,
    Loaded,
    LoadProbe,
    Raised,
    Request,
    Returned,
)
from grader.sandbox.wire.packing import Packing

SOURCE = b"def scale(x, factor):\n    return x * factor\n"


def call(function: str, *arguments: Any) -> tuple[Call, Packing]:
    packing = Packing()
    return Call(function, packing.pack(list(arguments)), packing.pack({})), packing


class Counting:
    """A sandbox in this process that answers with the number of its calls."""

    output, walls, callers = Output(), (), ()

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def ask(self, request: Request, packing: Packing, seconds: float, *_: Any) -> Any:
        self.asked.append(request)
        if isinstance(request, Load | LoadProbe):
            return Loaded(), []
        return Returned(len(self.asked)), []

    def stop(self) -> int:
        return 0


class Source:
    """A source that starts counting sandboxes and keeps them."""

    def __init__(self) -> None:
        self.started: list[Counting] = []

    def begin(self, modules: Sequence[str], limits: Limits) -> Callable[[], Sandbox]:
        def start() -> Sandbox:
            self.started.append(Counting())
            return cast(Sandbox, self.started[-1])

        return start


def sandbox_of(source: SandboxSource) -> Sandbox:
    return source.begin((), Limits())()


def value_of(sandbox: Sandbox, request: Request, packing: Packing | None = None) -> Any:
    reply, _ = sandbox.ask(request, packing or Packing(), 1.0)
    return reply.value if isinstance(reply, Returned) else reply


# --- the tape -------------------------------------------------------------------------------------


def test_a_tape_answers_each_test_in_the_order_of_the_first_run() -> None:
    tape = Tape()
    for test in ((1, 2), (3,)):
        for value in test:
            tape.keep(call("scale")[0], (Returned(value), []))
        tape.next_test()
    tape.rewind()

    def answered() -> Any:
        reply, _ = tape.answer(*call("scale"))
        return cast(Returned, reply).value

    assert [answered(), answered()] == [1, 2]
    # This test has no more answers, so the last answer of any test is used.
    assert answered() == 3
    tape.next_test()
    assert answered() == 3


def test_a_tape_has_no_answer_for_a_function_that_was_never_called() -> None:
    tape = Tape()
    tape.keep(call("scale")[0], (Returned(1), []))
    with pytest.raises(ChannelClosed):
        tape.answer(*call("total"))


def test_changing_an_answer_does_not_change_the_tape() -> None:
    tape, given = Tape(), torch.ones(2)
    tape.keep(call("scale")[0], (Returned(0), [given]))
    given.zero_()
    _, (first,) = tape.answer(*call("scale"))
    first.zero_()
    _, (again,) = tape.answer(*call("scale"))
    assert again.tolist() == [1.0, 1.0]


def test_a_taped_run_can_be_replayed() -> None:
    source, tape = Source(), Tape()
    sandbox = sandbox_of(taped(cast(SandboxSource, source), tape))
    value_of(sandbox, Load("task", "task.py", SOURCE, ()))
    assert value_of(sandbox, *call("scale")) == 2
    tape.rewind()
    replayed = sandbox_of(
        forged(cast(SandboxSource, source), forge_of(Forgery.REPLAY, SOURCE, tape))
    )
    assert isinstance(value_of(replayed, Load("task", "task.py", SOURCE, ())), Loaded)
    assert value_of(replayed, *call("scale")) == 2
    assert len(source.started) == 1, "a forgery of the student's code starts no sandbox"


def test_a_sandbox_without_the_students_code_is_neither_forged_nor_taped() -> None:
    source, tape = Source(), Tape()
    for wrapped in (
        taped(cast(SandboxSource, source), tape),
        forged(cast(SandboxSource, source), forge_of(Forgery.TRUE, SOURCE, tape)),
    ):
        sandbox = sandbox_of(wrapped)
        value_of(sandbox, Load("probe", "", b"", ()))
        assert value_of(sandbox, *call("read")) == 2
    with pytest.raises(ChannelClosed):
        tape.answer(*call("read"))


# --- one answer to everything ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("forgery", "value"),
    [
        (Forgery.NONE, None),
        (Forgery.TRUE, True),
        (Forgery.ZERO, 0),
        (Forgery.TEXT, ""),
        (Forgery.LIST, []),
        (Forgery.DICT, {}),
    ],
)
def test_a_constant_is_the_answer_to_every_call(forgery: Forgery, value: Any) -> None:
    forge = forge_of(forgery, SOURCE, Tape())
    first, second = (cast(Returned, forge(*call(name))[0]).value for name in ("scale", "total"))
    assert first == second == value
    assert type(first) is type(value)
    # Each answer is a new object, since a suite may fill it.
    assert first is not second or not isinstance(value, list | dict)


def test_a_forged_class_has_no_parameters() -> None:
    for forgery in (Forgery.NONE, Forgery.ECHO):
        request = Build("Layer", Packing().pack([]), Packing().pack({}))
        reply, _ = forge_of(forgery, SOURCE, Tape())(request, Packing())
        assert isinstance(reply, Built) and not reply.parameters


def test_a_forged_error_names_every_argument() -> None:
    reply, _ = forge_of(Forgery.ERROR, SOURCE, Tape())(*call("scale"))
    assert isinstance(reply, Raised)
    assert (reply.type_name, reply.text) == ("ValueError", "factor, x")


def test_an_echo_returns_the_first_tensor_of_the_call() -> None:
    forge = forge_of(Forgery.ECHO, SOURCE, Tape())
    x = torch.ones(2)
    _, (answer,) = forge(*call("scale", 1.0, x, torch.zeros(3)))
    assert torch.equal(answer, x) and answer is not x
    assert forge(*call("scale", 1.0)) == (Returned(None), [])
