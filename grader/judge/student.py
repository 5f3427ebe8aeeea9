"""The `student` fixture: what a suite has in its hands while the student's code runs elsewhere."""

from __future__ import annotations

import functools
import marshal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from grader.judge.outcomes import Forbidden, SandboxDied, StudentError
from grader.judge.session import Session
from grader.sandbox.wire.messages import PROBE_FILE, Call, Returned
from grader.sandbox.wire.packing import Packing

if TYPE_CHECKING:
    from grader.judge.remote import RemoteModule

T = TypeVar("T")


class Student:
    """The student's module, seen from a suite.

    Whatever comes back is plain data that the judge decoded itself: numbers, strings, tensors,
    lists, dicts, `Record` for a named tuple, `Opaque` for anything else. What the student's code
    raises is raised here, as a subclass of the builtin exception that it was.
    """

    def __init__(self, session: Session, probe: Path) -> None:
        self._session = session
        self._probe = probe
        self.mutated: list[str] = []

    def module(self, class_name: str, *arguments: Any, **keywords: Any) -> RemoteModule:
        """Build the student's `nn.Module` of this name; its parameters are real tensors here.

        layer = student.module("GatedLinearUnit", 8, 4)
        layer(x).sum().backward()
        layer.weight.grad
        """
        from grader.judge.remote import RemoteModule

        return RemoteModule(self._session, class_name, arguments, keywords, self._note)

    def function(self, name: str) -> Callable[..., Any]:
        """The student's function of this name: tensors in and out carry gradients as usual.

        gelu = student.function("gelu")
        gelu(x).sum().backward()
        """

        def call(*arguments: Any, **keywords: Any) -> Any:
            return self._call(name, arguments, keywords)

        call.__name__ = name
        return call

    def run(self, probe: str, *arguments: Any, **keywords: Any) -> Any:
        """Call a function of the probe module beside the suite, in the sandbox.

        It gets the student's module first, then these arguments, and returns plain data.
        """
        session, name = self._session, self._probe.stem
        try:
            file = self._probe.stat()
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{probe} is to be run, and there is no {self._probe.name} beside the suite"
            ) from None
        session.keep_probe(name, _compiled(self._probe, file.st_mtime_ns, file.st_size))
        packing = Packing()
        packed = packing.pack(list(arguments)), packing.pack(keywords)
        reply, unpacking = session.ask(Call(probe, *packed, probe=name), packing)
        return unpacking.unpack(_returned(reply).value)

    def once(self, name: str, ask: Callable[[], T]) -> T:
        """What `ask` gave to the first test of this submission that asked under this name.

        For what several tests look at and takes long. What the student's code raised and a check that
        failed is kept, too, and raised again; a crash and a time-out are not, so that they cost the
        other tests nothing. What comes back is everybody's: it is not to be changed.

        seen = student.once("figure", lambda: student.run("plot", histories))
        """
        kept = self._session.kept
        if name not in kept:
            try:
                kept[name] = ask(), None
            except (AssertionError, Forbidden, StudentError) as error:
                kept[name] = None, error
        value, raised = kept[name]
        if raised is not None:
            raise raised
        return value  # type: ignore[no-any-return]  # what was kept under this name

    def _call(self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        session = self._session
        session.refuse_forbidden(name)
        packing = Packing()
        packed = packing.pack(list(arguments)), packing.pack(keywords)
        if "torch" not in sys.modules:
            reply, unpacking = session.ask(Call(name, *packed), packing)
            return unpacking.unpack(_returned(reply).value)
        from grader.judge.remote import attach, wanted

        inputs, positions = wanted(packing)
        reply, unpacking = session.ask(Call(name, *packed, wants=positions), packing)
        self._note(_returned(reply).mutated)
        return attach(session, _returned(reply), unpacking, inputs)

    def _note(self, mutated: tuple[str, ...]) -> None:
        # Of an honest reply these are the names of arguments and parameters.
        self.mutated = list(dict.fromkeys([*self.mutated, *(name[:80] for name in mutated)]))[:1000]


# A judge sends the same probes to every submission's sandbox.
@functools.lru_cache(maxsize=64)
def _compiled(probe: Path, changed: int, size: int) -> bytes:  # noqa: ARG001 (which version it is)
    return marshal.dumps(compile(probe.read_bytes(), PROBE_FILE, "exec", dont_inherit=True))


def _returned(reply: object) -> Returned:
    if not isinstance(reply, Returned):
        raise SandboxDied("Your code gave an answer that cannot be read: nothing was returned.")
    return reply
