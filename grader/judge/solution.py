"""The course's own solution in the tests of an exercise: what an answer is compared with, and who is at fault.

It runs in a sandbox of its own, which no student's code ever sees: whatever it patches, forks or leaves behind
stays there, and both sides lose the same on the wire. What it gives depends on the suite, the solution and the
seed, and is kept: a class pays for it once.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import random
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from grader.course.digest import exercise_digest
from grader.course.manifest import Course, Exercise
from grader.course.suite import SuiteTest
from grader.errors import GraderError, JudgeError
from grader.judge.assignment import GradingOptions
from grader.judge.outcomes import StudentError, SubmissionFailure, adopted
from grader.judge.session import BegunTest, Session
from grader.judge.student import Student
from grader.judge.suite_run import SuiteRun, TestEnd, meaning_of
from grader.results import Outcome, Visibility
from grader.sandbox.client import SandboxSource
from grader.sandbox.inside.observation import seed_all
from grader.sandbox.wire.messages import (
    Backward,
    Call,
    Request,
    Returned,
    StandInAnswer,
    StandInCall,
    StandInRequest,
)
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.values import Opaque, ProtocolError, Record
from grader.text import clean

if TYPE_CHECKING:
    from grader.judge.checks.promise import Body, Outcomes

# What is kept of all exercises together, in the bytes of tensors; one test has a few kilobytes.
_MOST_BYTES = 256 * 2**20
# On a busy machine the solution is as slow as an answer, and no test may fail for that.
_MORE_SECONDS = 4.0


class Solved:
    """What solutions gave in tests, for the next answer: the latest of them, up to a bound."""

    def __init__(self) -> None:
        # By the digest of suites and solution, the seed of the inputs, and the name of the test.
        self._outcomes: OrderedDict[tuple[str, int, str], Outcomes] = OrderedDict()
        self._bytes = 0
        self.ends: dict[tuple[str, int, Visibility, str], TestEnd] = {}

    def get(self, key: tuple[str, int, str]) -> Outcomes | None:
        """What is kept under this key, if anything."""
        return self._outcomes.get(key)

    def keep(self, key: tuple[str, int, str], outcomes: Outcomes) -> None:
        """Keep what a solution gave; the oldest go."""
        self._outcomes[key] = outcomes
        self._bytes += _size(outcomes)
        while self._bytes > _MOST_BYTES and len(self._outcomes) > 1:
            _, oldest = self._outcomes.popitem(last=False)
            self._bytes -= _size(oldest)


def session_of(
    course: Course,
    exercise: Exercise,
    source: bytes,
    options: GradingOptions,
    sandboxes: SandboxSource,
    solution: Solution | None,
    *,
    watch_imports: bool = False,
    default_modes: bool = False,
) -> Session:
    """A session with an answer, whose tests may compare with the solution.

    Raises SyntaxError for a source that is not Python.
    """
    session = Session(
        sandboxes,
        exercise,
        source,
        options.required_walls,
        given=course.given(exercise),
        watch_imports=watch_imports,
        default_modes=default_modes,
    )
    session.solution = solution
    return session


def solution_of(
    course: Course,
    exercise: Exercise,
    options: GradingOptions,
    sandboxes: SandboxSource,
    solved: Solved,
) -> Solution | None:
    """The solution of an exercise; None where the course has none."""
    source = course.solution_source(exercise)
    if source is None:
        return None
    return Solution(course, exercise, source, options, sandboxes, solved)


class Solution:
    """The solution of an exercise beside one submission; `close` it in the end."""

    def __init__(
        self,
        course: Course,
        exercise: Exercise,
        source: bytes,
        options: GradingOptions,
        sandboxes: SandboxSource,
        solved: Solved,
    ) -> None:
        self._course, self._source = course, source
        seconds = exercise.seconds * _MORE_SECONDS
        self._exercise = msgspec.structs.replace(exercise, seconds=seconds)
        self._given, self._options, self._sandboxes = exercise, options, sandboxes
        self._solved = solved
        self._session: Session | None = None
        # The one in which its functions stand in for a student's, and the test that calls them.
        self._standing_in: Session | None = None
        # Since `begin_to_stand_in`: whether calls could be answered.
        self.answered: set[bool] = set()

    def outcomes(self, test: BegunTest, probe: Path, body: Body) -> Outcomes:
        """What the solution gives in a test that compares with it, whose function is `body`.

        Raises JudgeError where the solution does not keep the promise itself.
        """
        key = self._digest, test.draw_seed, body.__name__
        outcomes = self._solved.get(key)
        if outcomes is None:
            outcomes = self._run(test, probe, body)
            self._solved.keep(key, outcomes)
        return outcomes

    def _run(self, test: BegunTest, probe: Path, body: Body) -> Outcomes:
        from grader.judge.checks.promise import outcomes_of

        session = self._session
        if session is None:
            session = self._session = self._new_session()
        session.begin_test(test)
        try:
            # The test draws for the answer before and after.
            with _random_states_kept():
                seed_all(test.draw_seed)
                return outcomes_of(body, Student(session, probe), test.draw_seed)
        except GraderError:
            raise
        except Exception as error:
            fault = _own_fault(session, error)
            self.close()
            raise JudgeError(f"{body.__name__}: {fault}") from error

    def end(self, test: SuiteTest, suite: Path, function: Callable[[Student], None]) -> TestEnd:
        """The end of a test with the solution; where it does not pass, `fault` says why.

        A sandbox can say whatever it likes, so that its word alone makes no test unjudged: the solution has to
        meet an exception there, too.
        """
        key = self._digest, self._options.seed, test.visibility, test.name
        if key not in self._solved.ends:
            self._solved.ends[key] = self._judged(test, suite, function)
        return self._solved.ends[key]

    def begin_to_stand_in(self) -> None:
        """Begin a test that may call `stand_in`; the solution is loaded while no student's clock runs."""
        self.answered.clear()
        self._load_to_stand_in()

    def _load_to_stand_in(self) -> Session:
        if self._standing_in is None:
            # With the time that the student has: a call that takes longer is one that never ends.
            self._standing_in = self._new_session(self._given)
            self._standing_in.load()
        return self._standing_in

    def stand_in(self, test: BegunTest, asked: StandInRequest) -> tuple[StandInAnswer, Packing]:
        """Call a function of the solution for the student's code, or go back through an earlier call.

        What the function raises is in the answer. So is a TypeError for what cannot travel, as a model or a
        file, and for a function that changes what it is given.

        Raises ProtocolError where the call took too long or ended the sandbox.
        """
        session = self._load_to_stand_in()
        if session.test != test:
            session.begin_test(test)
        packing, answer = Packing(), Packing()
        request: Request
        if isinstance(asked, StandInCall):
            arguments, keywords = packing.pack(asked.arguments), packing.pack(asked.keywords)
            if not (_travels(asked.arguments) and _travels(asked.keywords)):
                self.answered.add(False)
                return _CANNOT_TRAVEL, answer
            request = Call(asked.function, arguments, keywords, wants=asked.wants)
        else:
            request = Backward(asked.graph, packing.pack(asked.gradients), False)
        try:
            reply, _ = session.ask(request, packing)
        except StudentError as error:
            self.answered.add(True)
            return StandInAnswer(raised=(adopted(error), error.text)), answer
        except SubmissionFailure as error:
            raise ProtocolError(f"the solution cannot stand in there: {error}") from error
        could = isinstance(reply, Returned) and not reply.mutated and _travels(reply.value)
        self.answered.add(could)
        if not isinstance(reply, Returned) or not could:
            return _CANNOT_TRAVEL, answer
        value = answer.pack(reply.value)
        return StandInAnswer(value, reply.graph, reply.differentiable), answer

    def close(self) -> None:
        """Let go of the sandboxes."""
        sessions = self._session, self._standing_in
        self._session = self._standing_in = None
        for session in sessions:
            if session is not None:
                session.close()

    @functools.cached_property
    def _digest(self) -> str:
        """What an end depends on: the suites, their probes, and the solution."""
        of_solution = hashlib.sha256(self._source).hexdigest()
        return f"{exercise_digest(self._course, self._given)} {of_solution}"

    def _new_session(self, exercise: Exercise | None = None) -> Session:
        exercise = exercise or self._exercise
        session = session_of(
            self._course, exercise, self._source, self._options, self._sandboxes, None
        )
        session.run_seed = self._options.seed
        return session

    def _judged(self, test: SuiteTest, suite: Path, function: Callable[[Student], None]) -> TestEnd:
        alone = msgspec.structs.replace(test, requires=())
        session = self._new_session()
        session.solution = self
        try:
            run = SuiteRun(session, [alone], self._options.seed)
            error = run.error_of(alone, suite, function)
            end = meaning_of(error)
        finally:
            session.close()
        fault = end.fault
        if not fault and end.outcome is not Outcome.PASSED:
            fault = _own_fault(session, error)
        return msgspec.structs.replace(end, fault=fault)


_CANNOT_TRAVEL = StandInAnswer(
    raised=("TypeError", "only plain data travels to a function that stands in, and back")
)


def _travels(value: Any) -> bool:
    """Whether it is the same at the other end of the wire."""
    if isinstance(value, (list, tuple)):
        return all(map(_travels, value))
    if isinstance(value, dict):
        return all(map(_travels, value.values()))
    return not isinstance(value, (Opaque, Record))


def _own_fault(session: Session, error: BaseException | None) -> str:
    """What the solution met in a test that it does not pass, without a value that a student should not read."""
    raised = error if isinstance(error, StudentError) else next(reversed(session.raised), None)
    if raised is None:
        return "the course's own solution does not pass it"
    what = clean(f"{raised.type_name}: {raised.text}".partition("\n")[0], 300).rstrip(".")
    if raised.probe is not None:
        probe, line = raised.probe
        return f"{probe}.py, line {line}: {what}, with the course's own solution, too"
    where = f", line {raised.frames[-1].line}" if raised.frames else ""
    return f"the course's own solution{where}: {what}"


@contextlib.contextmanager
def _random_states_kept() -> Iterator[None]:
    """Leave the global random states of this process as they were."""
    python = random.getstate()
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    of_torch = torch.default_generator.get_state() if torch is not None else None
    of_numpy = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(python)
        if torch is not None:
            torch.default_generator.set_state(of_torch)
        if numpy is not None:
            numpy.random.set_state(of_numpy)


def _size(outcomes: Outcomes) -> int:
    """About the bytes of all tensors in it."""

    def bytes_of(value: Any) -> int:
        if isinstance(value, dict):
            return sum(map(bytes_of, value.values()))
        if isinstance(value, (list, tuple)):
            return sum(map(bytes_of, value))
        return int(getattr(value, "nbytes", 64))

    return sum(bytes_of(case.value) + bytes_of(case.gradients) for case in outcomes.cases)
