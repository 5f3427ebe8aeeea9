"""The `student` fixture: what a suite has in its hands while the student's code runs elsewhere."""

from __future__ import annotations

import functools
import marshal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader.judge.outcomes import SandboxDied
from grader.judge.session import Session
from grader.sandbox.protocol import PROBE_FILE, Call, Packing, Returned

if TYPE_CHECKING:
    from grader.judge.remote import RemoteModule

__all__ = ["Student"]


class Student:
    """The student's module, seen from a suite.

    Whatever comes back is plain data that the judge decoded itself: numbers, strings, tensors,
    lists, dicts, `Record` for a named tuple, `Opaque` for anything else. What the student's code
    raises is raised here, as a subclass of the builtin exception that it was.
    """

    def __init__(self, session: Session, probe: Path | None) -> None:
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
        if self._probe is None:
            raise FileNotFoundError("there is no probe module beside this suite")
        session, name = self._session, self._probe.stem
        session.keep_probe(name, _compiled(self._probe.read_bytes()))
        packing = Packing()
        packed = packing.pack(list(arguments)), packing.pack(keywords)
        reply, unpacking = session.ask(Call(probe, *packed, probe=name), packing)
        return unpacking.unpack(_returned(reply).value)

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
def _compiled(source: bytes) -> bytes:
    return marshal.dumps(compile(source, PROBE_FILE, "exec", dont_inherit=True))


def _returned(reply: object) -> Returned:
    if not isinstance(reply, Returned):
        raise SandboxDied("Your code gave an answer that cannot be read: nothing was returned.")
    return reply
