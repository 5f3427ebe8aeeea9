"""The `student` fixture: a suite's access to the student's code, which runs elsewhere."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from grader.errors import JudgeError
from grader.judge.outcomes import Forbidden, SandboxDied, StudentError
from grader.judge.probe import read_probe
from grader.judge.session import Session
from grader.sandbox.wire.messages import Call, Raised, Returned
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.values import Made

if TYPE_CHECKING:
    from grader.judge.checks.promise import Body, Outcomes
    from grader.judge.remote import RemoteModule

T = TypeVar("T")


class Student:
    """The student's module, as a suite uses it.

    Return values are plain data that the judge decoded itself: numbers, strings, tensors, lists, dicts,
    `Record` for a named tuple, `Opaque` for anything else. An exception of the student's code is raised here,
    as a subclass of its builtin type.
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

    def function(self, name: str) -> RemoteFunction:
        """Return the student's function of this name: tensors in and out carry gradients as usual.

        gelu = student.function("gelu")
        gelu(x).sum().backward()
        """
        return RemoteFunction(self, name)

    def probe(self, name: str, file: Path | None = None) -> RemoteFunction:
        """Return a function of the probe module beside the suite (or of another file), run in the sandbox.

        It gets the student's module first, then its arguments, and returns plain data.
        """
        probe = read_probe(file or self._probe, name)
        probe.require(name)
        self._session.keep_probe(probe)
        return RemoteFunction(self, name, probe.name)

    def run(self, probe: str, *arguments: Any, **keywords: Any) -> Any:
        """Call a function of the probe module beside the suite, in the sandbox."""
        return self.probe(probe)(*arguments, **keywords)

    def apart(self, probe: str, *arguments: Any, **keywords: Any) -> Any:
        """Call a function of the probe module in a new sandbox, without the student's code.

        Use it for products of the student's code that a judge should not open, such as a file or a model in
        bytes. An empty module replaces the student's.
        """
        return self._run_in(self._session.apart(), probe, arguments, keywords)

    def anew(self, probe: str, *arguments: Any, **keywords: Any) -> Any:
        """Call a function of the probe module in a new sandbox, where the student's module is loaded anew.

        Use it for data that must come back from a file or a state: the student's code has no other memory of
        the first sandbox.
        """
        return self._run_in(self._session.apart(own=True), probe, arguments, keywords)

    def _run_in(
        self, session: Session, probe: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        try:
            value = Student(session, self._probe).run(probe, *arguments, **keywords)
            self._session.count_imports(session)
        finally:
            session.close()
        return value

    @property
    def draw_seed(self) -> int:
        """The seed of the running test's inputs; the solution gets the same."""
        return self._session.test.draw_seed

    def solved(self, body: Body) -> Outcomes:
        """Return the results of the course's solution in the running test; `body` is the test's function."""
        if self._session.solution is None:
            raise JudgeError(
                f"{body.__name__} compares with the course's solution, which solutions/ does not have"
            )
        return self._session.solution.outcomes(self._session.test, self._probe, body)

    def parameters(self, name: str) -> tuple[str, ...]:
        """Return the positional parameters of a function in the stub; empty if it has no such function.

        They are no secret: a message about a hidden test may show them.
        """
        return self._session.file.stub_parameters(name)

    def error_of(self, raised: Raised) -> StudentError:
        """Return the exception for a reply of the sandbox, as a call would raise it."""
        return self._session.error_of(raised)

    def made(self, probe: str, *arguments: Any, **keywords: Any) -> Made:
        """Return a live argument: the result of a function of the suite's probe, in the sandbox.

        network = student.made("network", state)
        student.function("train")(network, student.made("sgd", network))
        """
        return self.probe(probe).made(*arguments, **keywords)

    def own(self, name: str, *arguments: Any, **keywords: Any) -> Made:
        """Return a live argument: the result of a function or class of the student's own."""
        return self.function(name).made(*arguments, **keywords)

    def once(self, name: str, ask: Callable[[], T]) -> T:
        """Return the result of `ask` in the first test of this submission that used this name.

        Use it for slow results that several tests look at. Exceptions of the student's code and failed checks
        are kept, too, and raised again; crashes and timeouts are not, so they cost the other tests nothing.
        Random inputs in `ask` depend on the name, not on the first test. All tests share the result, so do not
        change it.

            seen = student.once("figure", lambda: student.run("plot", histories))
        """
        kept = self._session.kept
        with self._session.shared_draws(name):
            if name not in kept:
                try:
                    kept[name] = ask(), None
                except (AssertionError, Forbidden, StudentError) as error:
                    kept[name] = None, error
        value, raised = kept[name]
        if raised is not None:
            raise raised
        return value  # type: ignore[no-any-return]  # the kept value of this name

    def _call(
        self, called: RemoteFunction, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        """Call a function in the sandbox; the result is connected to tensors that require gradients."""
        session, packing = self._session, Packing(strided=True)
        request = self._request(called, packing, arguments, keywords)
        if called.probe is not None or "torch" not in sys.modules:
            reply, _ = session.ask(request, packing)
            return _returned(reply).value
        from grader.judge.remote import attach, wanted

        inputs, positions = wanted(packing)
        reply, tensors = session.ask(structs.replace(request, wants=positions), packing)
        self._note(_returned(reply).mutated)
        return attach(session, _returned(reply), tensors, inputs)

    def _observe(
        self,
        called: RemoteFunction,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        seed: int,
    ) -> Returned:
        """Call a function with seeded random states; the reply reports its arguments before and after."""
        packing = Packing(strided=True)
        request = self._request(called, packing, arguments, keywords)
        request = structs.replace(request, observe=seed)
        reply, _ = self._session.ask(request, packing)
        return _returned(reply)

    def _request(
        self,
        called: RemoteFunction,
        packing: Packing,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Call:
        """Return the request for a call, unless the source names something forbidden in the exercise."""
        if called.probe is None:
            self._session.refuse_forbidden(called.name)
        else:
            self._session.refuse_forbidden()
        packed = packing.pack(list(arguments)), packing.pack(keywords)
        return Call(called.name, *packed, probe=called.probe)

    def _note(self, mutated: tuple[str, ...]) -> None:
        # In an honest reply, these are names of arguments and parameters.
        self.mutated = list(dict.fromkeys([*self.mutated, *(name[:80] for name in mutated)]))[:1000]


class RemoteFunction:
    """A function that runs in the sandbox: the student's, or a probe's."""

    def __init__(self, student: Student, name: str, probe: str | None = None) -> None:
        self._student = student
        self.name = self.__name__ = name
        self.probe = probe

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._student._call(self, arguments, keywords)

    def observed(self, arguments: tuple[Any, ...], keywords: dict[str, Any], seed: int) -> Returned:
        """Call the function with seeded random states; the reply reports side effects on its arguments."""
        return self._student._observe(self, arguments, keywords, seed)

    def made(self, *arguments: Any, **keywords: Any) -> Made:
        """Return a live argument: the result of this function in the sandbox."""
        return Made(next(_numbers), self.probe, self.name, list(arguments), keywords)


# One live object for each number, within one call.
_numbers = itertools.count()


def _returned(reply: object) -> Returned:
    if not isinstance(reply, Returned):
        raise SandboxDied("Your code gave an answer that cannot be read: nothing was returned.")
    return reply
