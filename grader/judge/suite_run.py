"""The tests of an exercise while they run: prerequisites, seeds, and the meaning of each test's end."""

from __future__ import annotations

import builtins
import contextlib
import io
import re
import sys
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
    """The meaning of a test's end for the submission; with a `fault` it has none.

    What is not allowed is `refused`: the test did not come to the mistake that its hint is for. A fault is
    `certain` where the course's files show it, and no answer can have provoked it. It is `raised` where the
    sandbox said that something raised in the test. The solution's functions `stood_in` for the student's own,
    which were found wrong.
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
        """All that there is to say, empty for a test that passed."""
        return "" if self.finding is None else message_of(self.finding)

    @property
    def cause(self) -> Cause:
        """What the finding says about the cause."""
        return Cause.OTHER if self.finding is None else self.finding.cause


class NotYet(Exception):
    """A prerequisite of the test did not pass."""


class SuiteRun:
    """An exercise under judgment: its session, its tests by visibility and name, and who passed."""

    def __init__(self, session: Session, tests: list[SuiteTest], seed: int) -> None:
        self.session = session
        session.run_seed = seed
        self.tests = {(test.visibility, test.name): test for test in tests}
        self.seed = seed
        self.passed: set[tuple[Visibility, str]] = set()
        # The functions and classes of which a test did not pass.
        self._wrong: set[str] = set()
        # The title of the first test of each share that took too long.
        self._late: dict[str, str] = {}
        # One that is about the whole exercise, as a fork server that is gone.
        self.fault: GraderError | None = None

    def begin(self, test: SuiteTest) -> None:
        """Seed the test, and start its time.

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
            raise NoTime(text("{share} ran out of its time: {first}.", test.share, first))
        # A program can ask torch for the seed of its generators: that of the judge tells all that is drawn.
        names = self.seed, test.visibility.value, test.name
        seed, draw_seed = derive_seed(*names, "sandbox"), derive_seed(*names)
        self.session.begin_test(BegunTest(seed, draw_seed, test.share, test.subject))
        seed_all(draw_seed)

    def judged(self, test: SuiteTest, suite: Path, function: Callable[[Student], None]) -> TestEnd:
        """Call a test: what its end means, after an error of an earlier function was carried forward."""
        error = self.error_of(test, suite, function)
        return self.carried_forward(test, suite, function, self.end(test, error))

    def carried_forward(
        self, test: SuiteTest, suite: Path, function: Callable[[Student], None], end: TestEnd
    ) -> TestEnd:
        """Return the end of a test, or of a second run without mistakes of functions that it builds on.

        A test that did not pass runs again if the student's code uses functions that the manifest has under
        `builds_on`, and tests found these wrong: then the solution answers for them. The second end counts if
        the solution was asked and could answer, and the test passes or a check fails. Other ends may be the
        limits of what can stand in.
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
        """Return the end of a test in which the solution answers for these; None if it does not count."""
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
        """The functions that a test's subject builds on and uses, and of which a test did not pass."""
        subject = test.subject.partition(".")[0]
        earlier = self.session.exercise.builds_on.get(subject, ())
        if self._wrong.isdisjoint(earlier) or self.session.solution is None:
            return ()
        used = used_names(self.session.tree, subject)
        return tuple(name for name in earlier if name in self._wrong and name in used)

    def _is_about(self, test: SuiteTest, required: str, names: tuple[str, ...]) -> bool:
        subject = self.tests[test.visibility, required].subject
        return subject.partition(".")[0] in names

    def error_of(
        self, test: SuiteTest, suite: Path, function: Callable[[Student], None]
    ) -> BaseException | None:
        """Begin a test and call it: what it raised, None if it returned."""
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
        """What the end of the test means: that of an error, or of none."""
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


# Ends that a mistake of another function may have caused. Waiting for a loop once more would cost too much.
_MAY_INHERIT = (Outcome.FAILED, Outcome.ERROR, Outcome.NOT_IMPLEMENTED, Outcome.SKIPPED)


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether the judge itself has no memory left; torch raises a RuntimeError for that."""
    if isinstance(error, StudentError):
        return False
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Discard what a suite prints."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield


def _placed(run: SuiteRun, test: SuiteTest, end: TestEnd) -> TestEnd:
    """The end with the place to look at, if the test names one and the error did not."""
    name = end.function or test.place
    if end.outcome is Outcome.PASSED or end.line is not None or not name:
        return end
    line = line_of(run.session.tree, name)
    return msgspec.structs.replace(end, line=line, function=name if line else "")


def meaning_of(error: BaseException | None) -> TestEnd:
    """The meaning of a test's end for the submission; anything unknown is a fault of the grader."""
    match error:
        case None:
            return TestEnd(Outcome.PASSED)
        case NotYet():
            return _told(Outcome.SKIPPED, error)
        case Forbidden(frame=Frame(line, function)):
            plain = "Your code uses what this exercise does not allow."
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
            # A bare assert says nothing that a student may read; the title says what is wrong.
            return _told(Outcome.FAILED, error, Cause.MISTAKE if str(error) else Cause.VALUES)
        case _:
            frames = traceback.extract_tb(error.__traceback__)
            # A check that is called wrongly raises inside of itself, or in contextlib: the suite's line tells.
            own = [frame for frame in frames if Path(frame.filename).name.startswith("test_")]
            where = (own or frames)[-1:]
            at = f"{Path(where[0].filename).name}, line {where[0].lineno}" if where else "the suite"
            certain = isinstance(error, JudgeError)
            kind = at if certain else f"{type(error).__name__} ({at})"
            return TestEnd(Outcome.ERROR, fault=clean(f"{kind}: {error}", 400), certain=certain)


def _told(
    outcome: Outcome, error: BaseException, cause: Cause = Cause.OTHER, plain: str = ""
) -> TestEnd:
    """The end of a test that says what an exception says."""
    said = error.args[0] if error.args and isinstance(error.args[0], Text) else str(error)
    return TestEnd(outcome, finding([said], cause, plain))


def _student_error(error: StudentError) -> TestEnd:
    """The meaning of an exception of the student's code: still to be written, or an error at its last line."""
    place = error.frames[-1] if error.frames else None
    line, function = (place.line, place.function) if place else (None, "")
    if isinstance(error, NotImplementedError) and error.unwritten:
        first = clean(error.text.partition("\n")[0], 400)
        plain = "This part is still to be written."
        said = text("Still to do: {first}", first) if first else plain
        return TestEnd(Outcome.NOT_IMPLEMENTED, finding([said], Cause.OTHER, plain), line, function)
    if not place and error.text.endswith((KEEP_NAMES, KEEP_PARAMETERS)):
        # What a suite asked for: nothing of the student's code ran.
        plain = ""
        if not error.text.endswith(KEEP_NAMES):
            plain = "Your code has other parameters than the stub."
        said = text("{error}.", clean(error.text, 400))
        return TestEnd(Outcome.ERROR, finding([said], Cause.OTHER, plain))
    where = text(" (line {at_line}, in {in_function})", line, function) if place else ""
    said = "Your code raised"
    if error.misuse:
        # No line of the student's raised.
        said = f"{error.misuse[0].upper()}{error.misuse[1:]}: the test's own code raised"
    # The first line says what happened; the traceback of a rank or of a worker may follow.
    first = clean(f"{error.type_name}: {error.text}".partition("\n")[0], 400)
    what = _INNER.sub("", first).rstrip(":. ")
    advice = _advice(error)
    told = text(f"{said} {{error}}{{where}}.{advice}", what, where)
    cause = Cause.RAISE if place and error.unwritten else Cause.OTHER
    found = finding([told], cause, f"{said} {_known_type(error)}.{advice}")
    return TestEnd(Outcome.ERROR, found, line, function)


def _known_type(error: StudentError) -> str:
    """The builtin type of an exception, or the nearest one that it is based on.

    A name that a student gave could tell what the test put in.
    """
    name = error.type_name
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        name = adopted(error)
    return "an exception" if name == "Exception" else with_article(name)


# Where torch's own source found that there is no memory.
_INNER = re.compile(r"\[enforce fail at [^]]*\] .{0,20}?DefaultCPUAllocator: ")

# What to do about an exception, by its type and text: the first that fits. Most name what a program meets where
# it is judged, and not where it was written.
_ADVICE = tuple(
    (re.compile(pattern), f" {sentence}")
    for pattern, sentence in (
        ("allocate memory", "It asked for more memory than an exercise may use."),
        (
            "^SystemExit: 2$",
            "A judged program is started without arguments: give each argument that it parses a default.",
        ),
        (
            "^SystemExit",
            "A module must not end the program: remove the call of exit, or of what ends in one.",
        ),
        (
            "^ModuleNotFoundError",
            "Your file is judged alone: files beside it are not there, nor is what is not installed.",
        ),
        (
            "^FileNotFoundError|attempted relative import|Dataset not found|filename .* does not exist",
            "Your file is judged alone: files beside it are not there.",
        ),
        (
            r"^NameError: name '(get_ipython|display)' is not defined",
            "Such lines are for notebooks; delete this line.",
        ),
        (
            (
                "URLError|gaierror|name resolution|Name or service not known|Network is unreachable|"
                "Connection refused|Max retries exceeded|ConnectionError"
            ),
            "There is no network where your code is judged: compute with what you are given.",
        ),
        (
            "'headless' is currently running|no display name|connect to display",
            "There is no display where your code is judged: do not choose a backend, and open no window.",
        ),
        # Without a path: it is a semaphore that two processes share.
        (
            "Read-only file system$|daemonic processes",
            "Your code is judged in one process: take num_workers=0 and no multiprocessing.",
        ),
        (
            "Read-only file system|PermissionError: .*Permission denied: '",
            "Where your code is judged it can read and write files only in its working folder.",
        ),
        (
            "PermissionError: .*Operation not permitted",
            "Where your code is judged it can start no other program and reach no network.",
        ),
        (
            "not compiled with CUDA|CUDA.*not compiled|No CUDA|NVIDIA driver|support for mps",
            "There is no GPU here: stay on the device of what you are given.",
        ),
    )
)
_PRODUCT = re.compile(r"cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)")


def _advice(error: StudentError) -> str:
    """A sentence on what to do about an exception; empty where there is nothing to add."""
    if isinstance(error, MemoryError):
        return " It asked for more memory than an exercise may use."
    if isinstance(error, RecursionError):
        return (
            f" It recursed deeper than Python's limit, {sys.getrecursionlimit():,} calls unless the file "
            "changes it: use a loop, or end the recursion earlier."
        )
    if (sizes := _PRODUCT.search(error.text)) and sizes[2] == sizes[4] != sizes[3]:
        return " With the second one transposed (.T) they fit."
    told = f"{error.type_name}: {error.text}"
    return next((sentence for pattern, sentence in _ADVICE if pattern.search(told)), "")


# Checks that look at values, for which a test's hint is.
_OF_VALUES = frozenset(("assert_close", "assert_equal", "assert_tensor", "must_raise"))


def fitting_hint(test: SuiteTest, end: TestEnd, function: object = None) -> SuiteTest:
    """The test with its hint where that fits what happened: it is for the values that the test looks for.

    What is not allowed and another type say by themselves what to do. A public test may look at values before
    a law that does not hold.
    """
    named = function.__code__.co_names if isinstance(function, types.FunctionType) else ()
    is_public = test.visibility is Visibility.PUBLIC
    of_law = end.cause is Cause.LAW and is_public and not _OF_VALUES.isdisjoint(named)
    if end.refused or end.cause in (Cause.TYPE, Cause.NOTHING) or of_law:
        return msgspec.structs.replace(test, hint="")
    return test
