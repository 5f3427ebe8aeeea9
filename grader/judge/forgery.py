"""Forged replies of a sandbox, for `grade verify --words` and `grade audit --forge`.

Code in a sandbox can replace a probe, or even the protocol, and repeat any reply of the course's solution. It
cannot know results that depend on this run's inputs. So a replay judges the solution under one seed, keeps the
replies of its sandboxes on a `Tape`, and judges the tape under another seed. A test that passes relies on the
sandbox's word: on identities, modes, counts, or results that are the same under every seed. The other forgeries
know less: the answers to public tests, a constant, or an error.

Both commands request them as the `forgery` of `AuthorOptions`.
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
    """The replies of sandboxes, test by test, in order."""

    def __init__(self) -> None:
        self._test = 0
        self._of_test: dict[tuple[int, str], list[_Answer]] = defaultdict(list)
        self._last: dict[str, _Answer] = {}

    def rewind(self) -> None:
        """Go back to the first test."""
        self._test = 0

    def next_test(self) -> None:
        """Go on to the next test."""
        self._test += 1

    def keep(self, request: Request, answer: _Answer) -> None:
        """Keep an answer in the running test."""
        name = _name(request)
        # A suite may modify the answer.
        unchanged = copy.deepcopy(answer)
        self._of_test[self._test, name].append(unchanged)
        self._last[name] = unchanged

    def answer(self, request: Request, _: Packing) -> _Answer:
        """Return this test's next answer to a request of this name, else the last one of any test.

        Raises ChannelClosed if there is none.
        """
        name = _name(request)
        answers = self._of_test[self._test, name]
        if not answers and name not in self._last:
            raise ChannelClosed
        return copy.deepcopy(answers.pop(0) if answers else self._last[name])


def _name(request: Request) -> str:
    """Return the name of the function that a request calls; hidden and public probes may share names."""
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
    """Sandboxes of a source, each wrapped: `around` gets a function that starts one."""

    def __init__(
        self, source: SandboxSource, around: Callable[[Callable[[], Sandbox]], Any]
    ) -> None:
        self._source, self._around = source, around

    def begin(self, modules: Sequence[str], limits: Limits) -> Callable[[], Sandbox]:
        """Return a function that makes a sandbox; the process starts when it is needed."""

        def start() -> Sandbox:
            return self._source.begin(modules, limits)()

        return lambda: cast(Sandbox, self._around(start))

    def show_stack(self, number: int) -> bool:
        """Have a sandbox print its stack."""
        return self._source.show_stack(number)

    def stop(self, number: int) -> int:
        """Stop a sandbox."""
        return self._source.stop(number)

    def kill(self, number: int) -> None:
        """Stop a sandbox without waiting for its end."""
        self._source.kill(number)


def taped(source: SandboxSource, tape: Tape) -> SandboxSource:
    """Return a source of sandboxes whose answers are kept on a tape."""
    return _OtherSandboxes(source, lambda start: _Taped(start(), tape))


def forged(source: SandboxSource, forge: _Forge) -> SandboxSource:
    """Return a source of forged sandboxes; those without the student's code are genuine."""
    return _OtherSandboxes(source, lambda start: _Forged(start, forge))


class _Taped:
    """A sandbox whose replies are recorded if it has the student's code."""

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
    """A forgery in place of a sandbox; the genuine one starts only to run without the student's code."""

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
        """Return the waits of the genuine sandbox, if it runs."""
        return self._apart.delayed() if self._apart is not None else 0.0

    def take_reports(self) -> list[Report]:
        """Return the reports of the genuine sandbox, if it runs."""
        return self._apart.take_reports() if self._apart is not None else []

    def show_stack(self) -> None:
        """Do nothing: a forgery has no stack."""

    def stop(self) -> int:
        return self._apart.stop() if self._apart is not None else 0

    def kill(self) -> None:
        if self._apart is not None:
            self._apart.kill()


def forge_of(forgery: Forgery, source: bytes, tape: Tape) -> _Forge:
    """Return the function that answers for a forgery: from the tape, or with one reply to all calls.

    An error names all arguments in the `source`.
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
    """Return a forge that replies with an error that contains `names`."""
    reply = Raised("ValueError", ("ValueError", "Exception", "BaseException", "object"), names, ())
    return lambda request, packing: (reply, [])


def _echoing(request: Request, packing: Packing) -> _Answer:
    """Reply with the first tensor of the request, or None."""
    if (built := _built(request)) is not None:
        return built, []
    tensors = [tensor.detach().clone() for tensor in packing.tensors[:1]]
    return Returned(tensors[0] if tensors else None), tensors


def _built(request: Request) -> Built | None:
    """Return a module without parameters if the request is to build one."""
    return Built(0, {}, {}, (), (), training=True) if isinstance(request, Build) else None
