"""The tests of an exercise while they run: prerequisites, seeds, and the meaning of each test's end."""

from __future__ import annotations

import builtins
import contextlib
import io
import re
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from grader.course.manifest import probe_of
from grader.course.suite import SuiteTest
from grader.errors import GraderError, JudgeError
from grader.findings import message_of
from grader.judge.advice import advice_on
from grader.judge.outcomes import (
    KEEP_NAMES,
    KEEP_PARAMETERS,
    CheckFailed,
    Forbidden,
    Frame,
    NoTime,
    SandboxDied,
    StudentError,
    SubmissionFailure,
    TimedOut,
    adopted,
)
from grader.judge.session import BegunTest, Session, derive_seed
from grader.judge.student import Student
from grader.judge.text import Text, finding, text
from grader.results import Cause, Finding, Outcome, Visibility
from grader.sandbox.inside.observation import seed_all
from grader.sandbox.wire.values import ProtocolError
from grader.submissions.source import line_of, used_names
from grader.text import clean, with_article


class TestEnd(msgspec.Struct, frozen=True):
    """The meaning of a test's end for the submission, or a `fault` of the grader, which costs no points.

    refused: the code used something forbidden, so the test did not reach the mistake that its hint explains.
    certain: the course's files show the fault, so no answer can have provoked it.
    raised: the sandbox reported an exception in the test.
    stood_in: the functions of the solution that replaced the student's own wrong ones.
    """

    outcome: Outcome
    finding: Finding | None = None
    line: int | None = None
    function: str = ""
    refused: bool = False
    fault: str = ""
    certain: bool = False
    raised: bool = False
    stood_in: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The finding as a message, empty for a test that passed."""
        return "" if self.finding is None else message_of(self.finding)

    @property
    def cause(self) -> Cause:
        """The cause of the finding."""
        return Cause.OTHER if self.finding is None else self.finding.cause


class NotYet(Exception):
    """A prerequisite of the test did not pass."""


class SuiteRun:
    """An exercise under judgment: its session, its tests by visibility and name, and the passed tests."""

    def __init__(self, session: Session, tests: list[SuiteTest], seed: int) -> None:
        self.session = session
        session.run_seed = seed
        self.tests = {(test.visibility, test.name): test for test in tests}
        self.seed = seed
        self.passed: set[tuple[Visibility, str]] = set()
        # The functions and classes with a test that did not pass.
        self._wrong: set[str] = set()
        # The title of the first test of each share that took too long.
        self._late: dict[str, str] = {}
        # A fault that concerns the whole exercise, such as a fork server that ended.
        self.fault: GraderError | None = None

    def begin(self, test: SuiteTest) -> None:
        """Seed a test, and start its time.

        Raises NotYet if a prerequisite did not pass, NoTime if earlier tests left its share no time.
        """
        for required in test.requires:
            if (test.visibility, required) not in self.passed:
                title = self.tests[test.visibility, required].title
                raise NotYet(text('Not judged yet: first correct "{title}".', title))
        if test.share and self.session.is_out_of_time(test.share):
            first = "it is too slow"
            if test.share in self._late:
                first = text('first correct "{title}"', self._late[test.share])
            raise NoTime(text("{share} ran out of time: {first}.", test.share, first))
        # The sandbox gets another seed: a program can read torch's, and the judge's would tell it all inputs.
        names = self.seed, test.visibility.value, test.name
        seed, draw_seed = derive_seed(*names, "sandbox"), derive_seed(*names)
        self.session.begin_test(BegunTest(seed, draw_seed, test.share, test.subject))
        seed_all(draw_seed)

    def judged(self, test: SuiteTest, suite: Path, function: Callable[[Student], None]) -> TestEnd:
        """Call a test, carry mistakes of earlier functions forward, and return the meaning of its end."""
        error = self.error_of(test, suite, function)
        return self.carried_forward(test, suite, function, self.end(test, error))

    def carried_forward(
        self, test: SuiteTest, suite: Path, function: Callable[[Student], None], end: TestEnd
    ) -> TestEnd:
        """Return the end of a test, or of a second run without mistakes of functions that it builds on.

        A test that did not pass runs again if the student's code uses functions that the manifest has under
        `builds_on`, and tests of these did not pass. The solution then replaces them. The second end counts if
        the solution was called and could answer, and the test passes or a check fails. Other ends may be due to
        the replacement.
        """
        may_inherit = end.outcome in _MAY_INHERIT and not end.fault
        names = self._mistaken(test) if may_inherit else ()
        if end.outcome is not Outcome.PASSED:
            self._wrong.add(test.subject.partition(".")[0])
        second = self._second_end(test, suite, function, names) if names else None
        return end if second is None else replace(second, stood_in=names)

    def _second_end(
        self,
        test: SuiteTest,
        suite: Path,
        function: Callable[[Student], None],
        names: tuple[str, ...],
    ) -> TestEnd | None:
        """Return the end of a test with the solution's functions of these names; None if it does not count."""
        solution = self.session.solution
        assert solution is not None
        requires = [name for name in test.requires if not self._is_about(test, name, names)]
        again = msgspec.structs.replace(test, requires=tuple(requires))
        own, late = self.session, dict(self._late)
        try:
            self.session = own.with_stand_ins(names)
            end = self.end(again, self.error_of(again, suite, function))
        except SubmissionFailure:
            return None
        finally:
            self.session, self._late = own, late
        is_about_values = end.outcome in (Outcome.PASSED, Outcome.FAILED) and not end.fault
        if is_about_values and not end.refused and solution.answered == {True}:
            return end
        self.passed.discard((test.visibility, test.name))
        return None

    def _mistaken(self, test: SuiteTest) -> tuple[str, ...]:
        """Return the wrong functions that a test's subject builds on and uses."""
        subject = test.subject.partition(".")[0]
        earlier = self.session.exercise.builds_on.get(subject, ())
        if self._wrong.isdisjoint(earlier) or self.session.solution is None:
            return ()
        used = used_names(self.session.file.tree, subject)
        return tuple(name for name in earlier if name in self._wrong and name in used)

    def _is_about(self, test: SuiteTest, required: str, names: tuple[str, ...]) -> bool:
        subject = self.tests[test.visibility, required].subject
        return subject.partition(".")[0] in names

    def error_of(
        self, test: SuiteTest, suite: Path, function: Callable[[Student], None]
    ) -> BaseException | None:
        """Begin a test and call it; return its exception, None if it returned."""
        try:
            self.begin(test)
            with quiet():
                function(Student(self.session, probe_of(suite)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if _is_out_of_memory(error):
                raise MemoryError from error
            return error
        return None

    def end(self, test: SuiteTest, error: BaseException | None) -> TestEnd:
        """Return the meaning of a test's end, and note whether it passed or took too long."""
        if isinstance(error, GraderError) and not isinstance(error, JudgeError):
            self.fault = error
        end = _placed(self, test, meaning_of(error))
        if self.session.raised or isinstance(error, StudentError):
            end = msgspec.structs.replace(end, raised=True)
        if end.outcome is Outcome.TIMEOUT:
            self._late.setdefault(test.share, test.title)
        if end.outcome is Outcome.PASSED:
            self.passed.add((test.visibility, test.name))
        return end


# Ends that a mistake in another function may have caused. A timeout is too expensive to repeat.
_MAY_INHERIT = (Outcome.FAILED, Outcome.ERROR, Outcome.NOT_IMPLEMENTED, Outcome.SKIPPED)


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether the judge itself is out of memory, for which torch raises a RuntimeError."""
    if isinstance(error, StudentError):
        return False
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Discard the output of a suite."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield


def _placed(run: SuiteRun, test: SuiteTest, end: TestEnd) -> TestEnd:
    """Return the end with the place that the test names, if the error has none."""
    name = end.function or test.place
    if end.outcome is Outcome.PASSED or end.line is not None or not name:
        return end
    line = line_of(run.session.file.tree, name)
    return msgspec.structs.replace(end, line=line, function=name if line else "")


def meaning_of(error: BaseException | None) -> TestEnd:
    """Return the meaning of a test's exception, or of its return (None); anything unknown is a fault."""
    match error:
        case None:
            return TestEnd(Outcome.PASSED)
        case NotYet():
            return _told(Outcome.SKIPPED, error)
        case Forbidden(frame=Frame(line, function)):
            plain = "Your code uses something that this exercise does not allow."
            end = _told(Outcome.FAILED, error, plain=plain)
            return replace(end, line=line or None, function=function, refused=True)
        case StudentError():
            return _student_error(error)
        case NoTime():
            return _told(Outcome.TIMEOUT, error, Cause.NO_TIME)
        case TimedOut(frame=frame) | SandboxDied(frame=frame):
            late = isinstance(error, TimedOut)
            outcome = Outcome.TIMEOUT if late else Outcome.ERROR
            plain = "Your code took too long." if late else "Your code ended the process."
            end = _told(outcome, error, plain=plain)
            if frame is None:
                return end
            return replace(end, line=frame.line, function=frame.function)
        case ProtocolError():
            plain = "Your code gave an answer that cannot be read."
            said = text(
                "Your code gave an answer that cannot be read: {error}.", clean(str(error), 400)
            )
            return TestEnd(Outcome.ERROR, finding([said], Cause.TYPE, plain))
        case CheckFailed() | AssertionError():
            if isinstance(error, CheckFailed):
                return TestEnd(Outcome.FAILED, error.finding, function=error.place)
            # A bare assert has no message for students; the test's title must do.
            return _told(Outcome.FAILED, error, Cause.MISTAKE if str(error) else Cause.VALUES)
        case _:
            frames = traceback.extract_tb(error.__traceback__)
            # A check that was called wrongly raises in its own code or in contextlib: show the suite's line.
            own = [frame for frame in frames if Path(frame.filename).name.startswith("test_")]
            where = (own or frames)[-1:]
            at = f"{Path(where[0].filename).name}, line {where[0].lineno}" if where else "the suite"
            certain = isinstance(error, JudgeError)
            kind = at if certain else f"{type(error).__name__} ({at})"
            return TestEnd(Outcome.ERROR, fault=clean(f"{kind}: {error}", 400), certain=certain)


def _told(
    outcome: Outcome, error: BaseException, cause: Cause = Cause.OTHER, plain: str = ""
) -> TestEnd:
    """Return the end of a test with the message of an exception."""
    said = error.args[0] if error.args and isinstance(error.args[0], Text) else str(error)
    return TestEnd(outcome, finding([said], cause, plain))


# For a module without the method, torch raises the same exception as a stub for an unwritten part.
_NO_FORWARD = re.compile(r'Module \[(\w+)\] is missing the required "forward" function')


def _student_error(error: StudentError) -> TestEnd:
    """Return the meaning of an exception in the student's code: a part to be written, or an error."""
    place = error.frames[-1] if error.frames else None
    line, function = (place.line, place.function) if place else (None, "")
    if isinstance(error, NotImplementedError) and (module := _NO_FORWARD.match(error.text)):
        plain = "A module has no method 'forward': is it missing, or misspelled?"
        said = text("{module} has no method 'forward': is it missing, or misspelled?", module[1])
        return TestEnd(Outcome.ERROR, finding([said], Cause.OTHER, plain), line, function)
    if isinstance(error, NotImplementedError) and error.unwritten:
        first = clean(error.text.partition("\n")[0], 400)
        plain = "This part is still to be written."
        said = text("Still to do: {first}", first) if first else plain
        return TestEnd(Outcome.NOT_IMPLEMENTED, finding([said], Cause.OTHER, plain), line, function)
    if not place and error.text.endswith((KEEP_NAMES, KEEP_PARAMETERS)):
        # The suite asked for a name or called with parameters that the file lacks: no student code ran.
        plain = ""
        if not error.text.endswith(KEEP_NAMES):
            plain = "Your code has other parameters than the stub."
        said = text("{error}.", clean(error.text, 400))
        return TestEnd(Outcome.ERROR, finding([said], Cause.OTHER, plain))
    where = text(" (line {at_line}, in {in_function})", line, function) if place else ""
    said = "Your code raised"
    if error.misuse:
        # The exception is not from a line of the student's.
        said = f"{error.misuse[0].upper()}{error.misuse[1:]}: the test's own code raised"
    # Only the first line: the traceback of a rank or a worker may follow.
    first = clean(f"{error.type_name}: {error.text}".partition("\n")[0], 400)
    exception = _INNER.sub("", first).rstrip(":. ")
    advice = advice_on(error)
    told = text(f"{said} {{error}}{{where}}.{advice}", exception, where)
    if error.meant:
        # A name of the student's own could tell of the inputs of a test: a value, like the exception.
        told = text("{told}{meant}", told, error.meant)
    cause = Cause.RAISE if place and error.unwritten else Cause.OTHER
    found = finding([told], cause, f"{said} {_known_type(error)}.{advice}")
    return TestEnd(Outcome.ERROR, found, line, function)


def _known_type(error: StudentError) -> str:
    """Return the builtin type of an exception, or its nearest builtin base.

    A student's own class could have a name that reveals inputs of the test.
    """
    name = error.type_name
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        name = adopted(error)
    return "an exception" if name == "Exception" else with_article(name)


# Torch's message about too little memory begins with a place in its own source.
_INNER = re.compile(r"\[enforce fail at [^]]*\] .{0,20}?DefaultCPUAllocator: ")

# Checks of values: a test's hint is about values.
_OF_VALUES = frozenset(("assert_close", "assert_equal", "assert_tensor", "must_raise"))


def fitting_hint(test: SuiteTest, end: TestEnd, function: object = None) -> SuiteTest:
    """Return the test, without its hint if the hint does not fit its end.

    A hint is about values. A forbidden name and a wrong type explain themselves, and if a law does not hold in
    a public test, the values may already have been right.
    """
    named = function.__code__.co_names if isinstance(function, types.FunctionType) else ()
    is_public = test.visibility is Visibility.PUBLIC
    of_law = end.cause is Cause.LAW and is_public and not _OF_VALUES.isdisjoint(named)
    if end.refused or end.cause in (Cause.TYPE, Cause.NOTHING) or of_law:
        return msgspec.structs.replace(test, hint="")
    return test
