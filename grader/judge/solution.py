"""The course's own solution in the tests of an exercise: the expected results, and the test of a fault.

The solution runs in a sandbox of its own, without any student's code. Its side effects stay there, and its
results lose the same on the wire as a student's. They depend only on the suite, the solution and the seed, and
are kept, so a class pays for them once.
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
from grader.judge.student_file import StudentFile
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

# The bound of kept tensors, for all exercises together; one test has a few kilobytes.
_MAX_BYTES = 256 * 2**20
# A factor of the exercise's seconds: no test may fail because the solution is slow on a busy machine.
_MORE_SECONDS = 4.0


class Solved:
    """The latest results of solutions in tests, kept for the next submission, up to a bound."""

    def __init__(self) -> None:
        # Keys: the digest of suites and solution, the seed of the inputs, the name of the test.
        self._outcomes: OrderedDict[tuple[str, int, str], Outcomes] = OrderedDict()
        self._bytes = 0
        self.ends: dict[tuple[str, int, Visibility, str], TestEnd] = {}

    def get(self, key: tuple[str, int, str]) -> Outcomes | None:
        """Return the outcomes under this key, None if there are none."""
        return self._outcomes.get(key)

    def keep(self, key: tuple[str, int, str], outcomes: Outcomes) -> None:
        """Keep outcomes of a solution; drop the oldest beyond the bound."""
        self._outcomes[key] = outcomes
        self._bytes += _size(outcomes)
        while self._bytes > _MAX_BYTES and len(self._outcomes) > 1:
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
    stub: bytes = b"",
    watch_imports: bool = False,
    default_modes: bool = False,
) -> Session:
    """Return a session for a source, whose tests may compare with the `solution`.

    With the `stub`, places of errors are outside of the functions that it gives.

    Raises SyntaxError if the source is not Python.
    """
    session = Session(
        sandboxes,
        exercise,
        StudentFile(exercise, source, stub),
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
    """Return the solution of an exercise, None if the course has none."""
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
        # This session's functions replace a student's.
        self._standing_in: Session | None = None
        # Whether calls since `begin_to_stand_in` could be answered.
        self.answered: set[bool] = set()

    def outcomes(self, test: BegunTest, probe: Path, body: Body) -> Outcomes:
        """Return the solution's results in a test that compares with it; `body` is the test's function.

        Raises JudgeError if the solution itself does not pass.
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
            # The test draws for the student's answer before and after.
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
        """Return the end of a test with the solution; if it does not pass, `fault` says why.

        Use it before you blame the suite for an exception: a sandbox can report any exception, but only a
        faulty test raises one with the solution, too.
        """
        key = self._digest, self._options.seed, test.visibility, test.name
        if key not in self._solved.ends:
            self._solved.ends[key] = self._judged(test, suite, function)
        return self._solved.ends[key]

    def begin_to_stand_in(self) -> None:
        """Begin a test that may call `stand_in`; load the solution outside of the student's time."""
        self.answered.clear()
        self._load_to_stand_in()

    def _load_to_stand_in(self) -> Session:
        if self._standing_in is None:
            # With the student's time: a call that takes longer counts as endless.
            self._standing_in = self._new_session(self._given)
            self._standing_in.load()
        return self._standing_in

    def stand_in(self, test: BegunTest, asked: StandInRequest) -> tuple[StandInAnswer, Packing]:
        """Call a function of the solution for the student's code, or differentiate an earlier call.

        The answer has the function's exception, if it raised one. It has a TypeError if arguments or result
        cannot travel, such as a model or a file, or if the function changed its arguments.

        Raises ProtocolError if the call took too long or ended the sandbox.
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
            raise ProtocolError(f"the solution gave no answer: {error}") from error
        could = isinstance(reply, Returned) and not reply.mutated and _travels(reply.value)
        self.answered.add(could)
        if not isinstance(reply, Returned) or not could:
            return _CANNOT_TRAVEL, answer
        value = answer.pack(reply.value)
        return StandInAnswer(value, reply.graph, reply.differentiable), answer

    def close(self) -> None:
        """End the sandboxes."""
        sessions = self._session, self._standing_in
        self._session = self._standing_in = None
        for session in sessions:
            if session is not None:
                session.close()

    @functools.cached_property
    def _digest(self) -> str:
        """A digest of the suites, their probes, and the solution."""
        of_solution = hashlib.sha256(self._source).hexdigest()
        return f"{exercise_digest(self._course, self._given)} {of_solution}"

    def _new_session(self, exercise: Exercise | None = None) -> Session:
        exercise = exercise or self._exercise
        try:
            session = session_of(
                self._course, exercise, self._source, self._options, self._sandboxes, None
            )
        except SyntaxError as error:
            raise JudgeError(
                f"The course's own solution of {exercise.id!r} is not valid Python: line "
                f"{error.lineno or 1}: {error.msg}."
            ) from error
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
    raised=("TypeError", "only plain data can be passed to the solution's function and returned")
)


def _travels(value: Any) -> bool:
    """Whether a value is the same at the other end of the wire."""
    if isinstance(value, (list, tuple)):
        return all(map(_travels, value))
    if isinstance(value, dict):
        return all(map(_travels, value.values()))
    return not isinstance(value, (Opaque, Record))


def _own_fault(session: Session, error: BaseException | None) -> str:
    """Return the reason why the solution does not pass a test, without hidden values."""
    raised = error if isinstance(error, StudentError) else next(reversed(session.raised), None)
    if raised is None:
        return "the course's own solution does not pass it"
    exception = clean(f"{raised.type_name}: {raised.text}".partition("\n")[0], 300).rstrip(".")
    if raised.probe is not None:
        probe, line = raised.probe
        return f"{probe}.py, line {line}: {exception}, with the course's own solution, too"
    where = f", line {raised.frames[-1].line}" if raised.frames else ""
    return f"the course's own solution{where}: {exception}"


@contextlib.contextmanager
def _random_states_kept() -> Iterator[None]:
    """Restore the global random states of this process after the block."""
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
    """Return the approximate bytes of all tensors in the outcomes."""

    def bytes_of(value: Any) -> int:
        if isinstance(value, dict):
            return sum(map(bytes_of, value.values()))
        if isinstance(value, (list, tuple)):
            return sum(map(bytes_of, value))
        return int(getattr(value, "nbytes", 64))

    return sum(bytes_of(case.value) + bytes_of(case.gradients) for case in outcomes.cases)
