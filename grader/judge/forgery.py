"""Forged replies in the place of a sandbox's, for `grade verify --words` and `grade audit --forge`.

Code in a sandbox can answer in the place of a probe, or of the protocol itself, and say all that the course's
solution ever said. What it cannot say is what only this run's inputs give. So the solution is judged under
one seed, what its sandboxes answer is kept on a `Tape`, and under another seed the tape answers. A test that
passes then believes words: identities, modes, counts, and results that no seed changes. The other forgeries
know less: the answers to public tests, one constant for all, an error for all.

`grade verify --words` and `grade audit --forge` ask for them, as a `Forgery` of the `GradingOptions`.
"""

from __future__ import annotations

import ast
import copy
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from grader.course.syntax import syntax_tree
from grader.judge.assignment import Forgery
from grader.sandbox.client import Output, Sandbox, SandboxSource
from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.channel import ChannelClosed
from grader.sandbox.wire.messages import (
    Backward,
    Build,
    Built,
    Call,
    Forward,
    Load,
    Loaded,
    LoadProbe,
    Raised,
    Reply,
    Report,
    Request,
    Returned,
)
from grader.sandbox.wire.packing import Packing

if TYPE_CHECKING:
    import torch

_Answer = tuple[Reply, list["torch.Tensor"]]
_Forge = Callable[[Request, Packing], _Answer]
_More = Callable[[Sandbox], float]

_CONSTANTS: dict[Forgery, Any] = {
    Forgery.NONE: None,
    Forgery.TRUE: True,
    Forgery.ZERO: 0,
    Forgery.TEXT: "",
    Forgery.LIST: [],
    Forgery.DICT: {},
}


class Tape:
    """What sandboxes answered, test by test, in the order in which they were asked."""

    def __init__(self) -> None:
        self._test = 0
        self._of_test: dict[tuple[int, str], list[_Answer]] = defaultdict(list)
        self._last: dict[str, _Answer] = {}

    def rewind(self) -> None:
        """Begin with the first test again."""
        self._test = 0

    def next_test(self) -> None:
        """A test is over."""
        self._test += 1

    def keep(self, request: Request, answer: _Answer) -> None:
        """Keep an answer of the test that runs."""
        name = _name(request)
        # A suite may write into what it gets.
        unchanged = copy.deepcopy(answer)
        self._of_test[self._test, name].append(unchanged)
        self._last[name] = unchanged

    def answer(self, request: Request, _: Packing) -> _Answer:
        """The next answer of this test to such a request, or else the last one of any test.

        Raises ChannelClosed where there is none.
        """
        name = _name(request)
        answers = self._of_test[self._test, name]
        if not answers and name not in self._last:
            raise ChannelClosed
        return copy.deepcopy(answers.pop(0) if answers else self._last[name])


def _name(request: Request) -> str:
    """The name of the function that a request calls: a hidden probe's may be a public one's."""
    match request:
        case Call(function=function):
            return function
        case Build(class_name=name):
            return f"{name}()"
        case Forward(handle=handle):
            return f"forward {handle}"
        case Backward(graph=graph):
            return f"backward {graph}"
    return type(request).__name__


class _OtherSandboxes:
    """Sandboxes of a source, with something else around each: `around` gets what starts one."""

    def __init__(
        self, source: SandboxSource, around: Callable[[Callable[[], Sandbox]], Any]
    ) -> None:
        self._source, self._around = source, around

    def begin(self, modules: Sequence[str], limits: Limits) -> Callable[[], Sandbox]:
        """Begin nothing yet: a sandbox is started where one is needed."""

        def start() -> Sandbox:
            return self._source.begin(modules, limits)()

        return lambda: cast(Sandbox, self._around(start))

    def show_stack(self, number: int) -> bool:
        """Ask for the stack of a sandbox."""
        return self._source.show_stack(number)

    def stop(self, number: int) -> int:
        """Stop a sandbox."""
        return self._source.stop(number)

    def kill(self, number: int) -> None:
        """Stop a sandbox, without waiting for its end."""
        self._source.kill(number)


def taped(source: SandboxSource, tape: Tape) -> SandboxSource:
    """Sandboxes whose answers are kept on a tape."""
    return _OtherSandboxes(source, lambda start: _Taped(start(), tape))


def forged(source: SandboxSource, forge: _Forge) -> SandboxSource:
    """Sandboxes that a forgery replaces, except those without the student's code."""
    return _OtherSandboxes(source, lambda start: _Forged(start, forge))


class _Taped:
    """A sandbox whose replies are recorded, except one without the student's code."""

    def __init__(self, sandbox: Sandbox, tape: Tape) -> None:
        self._sandbox, self._tape = sandbox, tape
        self._is_apart = False

    def ask(
        self, request: Request, packing: Packing, seconds: float, more: _More = lambda _: 0
    ) -> _Answer:
        answer = self._sandbox.ask(request, packing, seconds, more)
        if isinstance(request, Load):
            self._is_apart = not request.source
        elif not isinstance(request, LoadProbe) and not self._is_apart:
            self._tape.keep(request, answer)
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)


class _Forged:
    """A sandbox that a forgery replaces."""

    def __init__(self, start: Callable[[], Sandbox], forge: _Forge) -> None:
        self._start, self._forge = start, forge
        self._apart: Sandbox | None = None
        self.callers: tuple[int, ...] = ()
        self.output = Output()
        self.walls: tuple[str, ...] = ()

    def ask(
        self, request: Request, packing: Packing, seconds: float, more: _More = lambda _: 0
    ) -> _Answer:
        if isinstance(request, Load) and not request.source:
            self._apart = self._start()
        if self._apart is not None:
            return self._apart.ask(request, packing, seconds, more)
        if isinstance(request, Load | LoadProbe):
            return Loaded(), []
        return self._forge(request, packing)

    def delayed(self) -> float:
        """What does not run waits for nothing."""
        return self._apart.delayed() if self._apart is not None else 0.0

    def take_reports(self) -> list[Report]:
        """What does not run tells nothing."""
        return self._apart.take_reports() if self._apart is not None else []

    def show_stack(self) -> None:
        """There is nothing to show of what does not run."""

    def stop(self) -> int:
        return self._apart.stop() if self._apart is not None else 0

    def kill(self) -> None:
        if self._apart is not None:
            self._apart.kill()


def forge_of(forgery: Forgery, source: bytes, tape: Tape) -> _Forge:
    """The replies of a forgery: those of the tape, or one reply to all calls.

    The names of all arguments are those of the `source`.
    """
    if forgery in (Forgery.REPLAY, Forgery.PUBLIC):
        return tape.answer
    if forgery is Forgery.ERROR:
        names = sorted(
            {node.arg for node in ast.walk(syntax_tree(source)) if isinstance(node, ast.arg)}
        )
        return _refusing(", ".join(names))
    if forgery is Forgery.ECHO:
        return _echoing
    constant = _CONSTANTS[forgery]
    return lambda request, _: (_built(request) or Returned(copy.deepcopy(constant)), [])


def _refusing(names: str) -> _Forge:
    """An error that names every argument there is."""
    reply = Raised("ValueError", ("ValueError", "Exception", "BaseException", "object"), names, ())
    return lambda request, packing: (reply, [])  # a forgery takes both


def _echoing(request: Request, packing: Packing) -> _Answer:
    """The first tensor of the request, or None."""
    if (built := _built(request)) is not None:
        return built, []
    tensors = [tensor.detach().clone() for tensor in packing.tensors[:1]]
    return Returned(tensors[0] if tensors else None), tensors


def _built(request: Request) -> Built | None:
    """A module without parameters, where one is to be built."""
    return Built(0, {}, {}, (), (), training=True) if isinstance(request, Build) else None
