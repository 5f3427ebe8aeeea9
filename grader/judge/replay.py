"""Replies of another seed in the place of a sandbox's: how many points need nothing that was computed.

A submission that answers in the place of a probe can say all that the course's solution ever said. What it
cannot say is what only this run's inputs give. So the solution is judged under one seed, what its sandboxes
answer is kept on a `Tape`, and under another seed the tape answers. A test that passes then believes words:
identities, modes, counts, and results that no seed changes. `grade verify --words` counts them.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from grader.sandbox.client import Output, Sandbox, SandboxSource
from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.channel import ChannelClosed
from grader.sandbox.wire.messages import (
    Backward,
    Build,
    Call,
    Forward,
    Load,
    Loaded,
    LoadProbe,
    Reply,
    Request,
)
from grader.sandbox.wire.packing import Packing

if TYPE_CHECKING:
    import torch

_Answer = tuple[Reply, list["torch.Tensor"]]


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
        kept = copy.deepcopy(answer)
        self._of_test[self._test, name].append(kept)
        self._last[name] = kept

    def answer(self, request: Request) -> _Answer:
        """The next answer of this test to such a request, or else the last one of any test.

        Raises ChannelClosed where there is none.
        """
        name = _name(request)
        answers = self._of_test[self._test, name]
        if not answers and name not in self._last:
            raise ChannelClosed
        return copy.deepcopy(answers.pop(0) if answers else self._last[name])


def _name(request: Request) -> str:
    match request:
        case Call(function=function, probe=probe):
            return f"{probe or ''}.{function}"
        case Build(class_name=name):
            return f"{name}()"
        case Forward(handle=handle):
            return f"forward {handle}"
        case Backward(graph=graph):
            return f"backward {graph}"
    return type(request).__name__


class TapedSandboxes:
    """Sandboxes whose answers are kept on a tape."""

    def __init__(self, source: SandboxSource, tape: Tape) -> None:
        self._source, self._tape = source, tape

    def begin(self, modules: Sequence[str], limits: Limits) -> Callable[[], Sandbox]:
        """Begin to start a sandbox; see `SandboxSource`."""
        starting = self._source.begin(modules, limits)
        return lambda: cast(Sandbox, _Taped(starting(), self._tape))

    def show_stack(self, number: int) -> bool:
        """Ask for the stack of a sandbox."""
        return self._source.show_stack(number)

    def stop(self, number: int) -> int:
        """Stop a sandbox."""
        return self._source.stop(number)


class _Taped:
    """A sandbox that is listened to, but for one in which none of the student's code runs."""

    def __init__(self, sandbox: Sandbox, tape: Tape) -> None:
        self._sandbox, self._tape = sandbox, tape
        self._is_apart = False

    def ask(self, request: Request, packing: Packing, seconds: float) -> _Answer:
        answer = self._sandbox.ask(request, packing, seconds)
        if isinstance(request, Load):
            self._is_apart = not request.source
        elif not isinstance(request, LoadProbe) and not self._is_apart:
            self._tape.keep(request, answer)
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)


class ReplayedSandboxes:
    """Sandboxes that a tape answers for, but for those in which none of the student's code runs."""

    def __init__(self, source: SandboxSource, tape: Tape) -> None:
        self._source, self._tape = source, tape

    def begin(self, modules: Sequence[str], limits: Limits) -> Callable[[], Sandbox]:
        """Begin nothing: a sandbox is started where one is needed after all."""

        def start() -> Sandbox:
            return self._source.begin(modules, limits)()

        return lambda: cast(Sandbox, _Replayed(start, self._tape))

    def show_stack(self, number: int) -> bool:
        """Ask for the stack of a sandbox."""
        return self._source.show_stack(number)

    def stop(self, number: int) -> int:
        """Stop a sandbox."""
        return self._source.stop(number)


class _Replayed:
    """What answers in the place of a sandbox."""

    def __init__(self, start: Callable[[], Sandbox], tape: Tape) -> None:
        self._start, self._tape = start, tape
        self._apart: Sandbox | None = None
        self.callers: tuple[int, ...] = ()
        self.output = Output()
        self.walls: tuple[str, ...] = ()

    def ask(self, request: Request, packing: Packing, seconds: float) -> _Answer:
        if isinstance(request, Load) and not request.source:
            self._apart = self._start()
        if self._apart is not None:
            return self._apart.ask(request, packing, seconds)
        if isinstance(request, Load | LoadProbe):
            return Loaded(), []
        return self._tape.answer(request)

    def show_stack(self) -> None:
        """There is nothing to show of what does not run."""

    def stop(self) -> int:
        return self._apart.stop() if self._apart is not None else 0
