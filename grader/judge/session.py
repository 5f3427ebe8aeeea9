"""One exercise of one submission while it is judged: its time, its sandbox, and the meaning of replies."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from grader.course.manifest import Exercise
from grader.errors import IsolationError, SandboxError
from grader.judge.outcomes import (
    Forbidden,
    Frame,
    SandboxDied,
    StudentError,
    TimedOut,
    cause_of_death,
)
from grader.judge.preloading import late_modules
from grader.judge.probe import Probe
from grader.judge.student_file import StudentFile
from grader.sandbox.client import (
    ABORTED,
    Output,
    Sandbox,
    SandboxSource,
    imported_library,
)
from grader.sandbox.inside.observation import seed_all
from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.channel import ChannelClosed
from grader.sandbox.wire.messages import (
    Build,
    Call,
    ForbiddenReply,
    Forward,
    Guard,
    Imports,
    ListImports,
    Load,
    Loaded,
    LoadProbe,
    Raised,
    Reply,
    Report,
    Request,
    Returned,
    StandInBackward,
    StandInCall,
)
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.values import ProtocolError
from grader.submissions.source import (
    beyond_guards,
    find_forbidden,
    parse,
)
from grader.text import clean

if TYPE_CHECKING:
    import torch

    from grader.judge.solution import Solution

# A test may use at most this part of the exercise's time, so an endless loop does not take all of it.
TEST_PART = 0.25
# Each timeout of a share halves the time of its further tests; after this many, they get none. A loop in few
# tests costs those tests; a loop in all tests uses less than half of the time.
_TIMEOUTS = 3
# Waits and imports are excused, in total up to this part of the exercise's seconds.
_EXCUSED_PART = 1.0
# A shorter extension is not worth another wait. Waits within a shorter call are not measured.
_LEAST_SECONDS = 0.05
_SHORT_SECONDS = 0.2


class Budget:
    """The seconds that each share has left; "" is the share of tests that are in no other.

    Once a share has run out, tests of the others get half: a loop in a shared helper is not charged in full to
    every share.
    """

    def __init__(self, exercise: Exercise) -> None:
        self._seconds = exercise.seconds
        self._left = dict.fromkeys(("", *exercise.shares), exercise.seconds)
        self._timeouts: Counter[str] = Counter()
        self._excusable = exercise.seconds * _EXCUSED_PART
        self.begin()

    def begin(self, share: str = "") -> None:
        """Begin a test of this share."""
        self.share = share
        self.limit = self._seconds * TEST_PART
        if share:
            another_is_out = any(self.is_out(other) for other in self._left if other != share)
            self.limit /= 2 ** (self._timeouts[share] + another_is_out)
        self._test_left = self.limit

    @property
    def left(self) -> float:
        """The seconds that the test may still use."""
        return min(self._test_left, self._left[self.share])

    @property
    def is_used_up(self) -> bool:
        """Whether the running share has used all of its seconds."""
        return self._left[self.share] <= 0

    def is_out(self, share: str) -> bool:
        """Whether further tests of this share have no time."""
        return self._left[share] <= 0 or (share != "" and self._timeouts[share] >= _TIMEOUTS)

    def spend(self, seconds: float) -> None:
        """Charge the running test."""
        self._test_left -= seconds
        self._left[self.share] -= seconds

    def excuse(self, seconds: float) -> float:
        """Return the part of these seconds that is not charged; all tests together have a limit."""
        granted = max(0.0, min(seconds, self._excusable))
        self._excusable -= granted
        return granted

    def time_out(self) -> None:
        """Count a timeout of the running test."""
        self._timeouts[self.share] += 1


class BegunTest(msgspec.Struct, frozen=True):
    """The seed of a test's sandbox, the seed of its inputs, its share, and its subject."""

    seed: int = 0
    draw_seed: int = 0
    share: str = ""
    subject: str = ""


class Session:
    """The student's module in a sandbox, which is replaced if it is lost.

    Time counts while the sandbox owes an answer. It does not count while a sandbox starts or the judge
    computes. Within limits, waits for a processor on a busy machine and imports of libraries are excused.
    """

    def __init__(
        self,
        sandboxes: SandboxSource,
        exercise: Exercise,
        file: StudentFile,
        required_walls: tuple[str, ...] = (),
        *,
        given: Mapping[str, bytes],
        watch_imports: bool = False,
        default_modes: bool = False,
        stand_ins: tuple[str, ...] = (),
        budget: Budget | None = None,
        output: Output | None = None,
    ) -> None:
        """Prepare a session, with a `budget` and an `output` of its own unless it shares another session's."""
        self.exercise, self.file = exercise, file
        self.walls: tuple[str, ...] = ()
        self.output = Output() if output is None else output
        # The exceptions that the sandbox reported in this test.
        self.raised: list[StudentError] = []
        # The events that its sandboxes reported, in order.
        self.reports: dict[Report, None] = {}
        # The results of `Student.once`, or the exceptions instead, by name.
        self.kept: dict[str, tuple[Any, Exception | None]] = {}
        self._sandboxes = sandboxes
        self._required_walls = required_walls
        self._given = given
        self._watch_imports = watch_imports
        self._default_modes = default_modes
        # Functions that the solution replaces in this session, and sessions in which it replaces others.
        self._stand_ins = stand_ins
        self._followers: dict[tuple[str, ...], Session] = {}
        # The global modes that the import changed, as the sandbox reports them.
        self.modes: tuple[str, ...] = ()
        self._imported_apart: tuple[str, ...] = ()
        self._sandbox: Sandbox | None = None
        self._starting: Callable[[], Sandbox] | None = None
        self._probes: dict[str, Probe] = {}
        self._budget = Budget(exercise) if budget is None else budget
        self.run_seed = 0
        self.test = BegunTest()
        # The course's solution, for tests that compare with it.
        self.solution: Solution | None = None
        self._seed: int | None = None
        self._test_seed = 0
        # The excused seconds of the running call, and the stack that it printed on request.
        self._excused = 0.0
        self._shown: bytes | None = None
        # The seconds that the sandbox had waited for a processor when they were last read.
        self._delayed = 0.0
        self._subject = ""
        self._traced = bool(exercise.operators and beyond_guards(file.tree))
        self._findings = find_forbidden(file.tree, exercise.forbidden)

    # --- tests ----------------------------------------------------------------------------------

    def begin_test(self, test: BegunTest) -> None:
        """Begin a test: start its time, and seed the next call."""
        self.test = test
        self._budget.begin(test.share)
        self.raised.clear()
        self._subject = test.subject
        self._seed = self._test_seed = test.seed

    @contextlib.contextmanager
    def shared_draws(self, name: str) -> Iterator[None]:
        """Seed draws by this name within the block, and by the test and the name afterwards.

        This holds here and in the sandbox. The draws within are then the same, whichever test comes first, and
        the draws afterwards do not depend on whether this test was the first.
        """
        outer = self._test_seed
        self._draw_from(derive_seed(self.run_seed, "once", name))
        try:
            yield
        finally:
            self._draw_from(derive_seed(outer, name))
            self._test_seed = outer

    def _draw_from(self, seed: int) -> None:
        seed_all(seed)
        self._test_seed = seed
        # Not the judge's own seed: see `SuiteRun.begin`.
        self._seed = derive_seed(seed, "sandbox")

    def is_out_of_time(self, share: str) -> bool:
        """Whether further tests of this share have no time."""
        return self._budget.is_out(share)

    def apart(self, *, own: bool = False) -> Session:
        """Return a session on the same clock, with a new sandbox without the student's code.

        With `own`, the student's module is loaded there anew, without any state of this session's sandbox.
        """
        stand_ins = self._stand_ins if own else ()
        return self._beside(own=own, stand_ins=stand_ins, budget=self._budget, output=self.output)

    def with_stand_ins(self, names: tuple[str, ...]) -> Session:
        """Return a session in which the solution replaces the functions of these names.

        The student's module is loaded anew, and its calls of these functions run in a sandbox of the solution.
        The session has its own clock and output, so it takes no time from the tests of this session. It is
        reused for the same names, and closed with this session.
        """
        assert self.solution is not None
        if names not in self._followers:
            self._followers[names] = self._beside(own=True, stand_ins=names)
        self.solution.begin_to_stand_in()
        return self._followers[names]

    def _beside(
        self,
        *,
        own: bool,
        stand_ins: tuple[str, ...],
        budget: Budget | None = None,
        output: Output | None = None,
    ) -> Session:
        session = Session(
            self._sandboxes,
            self.exercise,
            self.file if own else StudentFile(self.exercise, b""),
            self._required_walls,
            given=self._given,
            watch_imports=self._watch_imports,
            default_modes=self._default_modes,
            stand_ins=stand_ins,
            budget=budget,
            output=output,
        )
        session.run_seed, session.raised = self.run_seed, self.raised
        if own:
            # Without the student's code, events in the sandbox say nothing about the submission.
            session.reports, session._subject = self.reports, self._subject
            session.solution = self.solution if stand_ins else None
        return session

    def count_imports(self, apart: Session) -> None:
        """Add another session's late imports to ours."""
        if self._watch_imports:
            self._imported_apart += apart.imports()

    def close(self) -> None:
        """End the sandbox, even if it is still starting, and the solution's sandboxes."""
        # A follower shares the solution of the session that it follows.
        if self.solution is not None and not self._stand_ins:
            self.solution.close()
        for follower in self._followers.values():
            follower.close()
        if self._starting is not None:
            with contextlib.suppress(SandboxError):
                self._sandbox = self._starting()
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.kill()
            self._take_reports(sandbox)

    # --- asking ---------------------------------------------------------------------------------

    def ask(self, request: Request, packing: Packing) -> tuple[Reply, list[torch.Tensor]]:
        """Ask the sandbox, and return its reply with the tensors in it.

        Raises SubmissionFailure if the submission did not answer.
        """
        sandbox = self._running()
        if isinstance(request, Call) and request.probe is not None:
            request = msgspec.structs.replace(request, subject=self._subject.partition(".")[0])
        if isinstance(request, (Call, Build, Forward)) and self._seed is not None:
            request = msgspec.structs.replace(request, seed=self._seed)
            self._seed = None
        return self._exchange(sandbox, request, packing)

    @contextlib.contextmanager
    def clock(self) -> Iterator[None]:
        """Charge the judge's own work on an answer to the running test."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self._spend(begin)

    def refuse_forbidden(self, entry_point: str = "") -> None:
        """Raise Forbidden if the source of this entry point names something forbidden.

        The default is the subject of the test, for a probe that calls the function itself.
        """
        name = entry_point or self._subject.partition(".")[0]
        for finding in self._findings:
            if name in finding.rule.entry_points:
                raise Forbidden(
                    f"{finding.name} is not allowed here: {finding.rule.reason}.",
                    Frame(finding.line, finding.function),
                )

    def keep_probe(self, probe: Probe) -> None:
        """Load a probe module into the sandbox, once for each sandbox."""
        if self._probes.get(probe.name) != probe:
            self._probes[probe.name] = probe
            if self._sandbox is not None:
                self._exchange(self._sandbox, LoadProbe(probe.name, probe.code), Packing())

    def begin(self) -> None:
        """Begin to start the sandbox, which gets ready while the judge does something else."""
        exercise = self.exercise
        limits = Limits(
            cpu_seconds=int(exercise.most_seconds * 2) + 1,
            memory_bytes=exercise.memory_mb * 2**20,
            processes="processes" in exercise.needs,
            loopback="loopback" in exercise.needs,
        )
        modules = dict.fromkeys(
            [*exercise.preload, *late_modules(self.file.source, self.file.tree)]
        )
        for source in self._given.values():
            modules |= dict.fromkeys(late_modules(source, parse(source)))
        self._starting = self._sandboxes.begin(tuple(modules), limits)

    def load(self) -> None:
        """Import the student's module in a sandbox; raises SubmissionFailure if that fails."""
        self._running()

    def imports(self) -> tuple[str, ...]:
        """Return late imports, of a session that watches them; only for the course's own solution."""
        reply, _ = self.ask(ListImports(), Packing())
        own = reply.modules if isinstance(reply, Imports) else ()
        return tuple(dict.fromkeys((*own, *self._imported_apart)))

    def _running(self) -> Sandbox:
        if self._sandbox is None:
            self._sandbox = self._started()
            self._load(self._sandbox)
        return self._sandbox

    def _started(self) -> Sandbox:
        """Return a sandbox that is ready; raises IsolationError if a required wall is missing."""
        if self._starting is None:
            self.begin()
        starting, self._starting = self._starting, None
        assert starting is not None
        sandbox = starting()
        # All sandboxes of the exercise share one output.
        sandbox.output = self.output
        self._delayed = 0.0
        self.walls = sandbox.walls
        if missing := [wall for wall in self._required_walls if wall not in sandbox.walls]:
            sandbox.stop()
            raise IsolationError(
                f"The required isolation is not available here; missing: {', '.join(missing)}. "
                "No code of the submission was run. `grade doctor` explains what to do."
            )
        return sandbox

    def _load(self, sandbox: Sandbox) -> None:
        """Have a new sandbox import the student's module and the probes of its predecessor."""
        guards = tuple(
            Guard(rule.entry_points, rule.operators, rule.names) for rule in self.exercise.forbidden
        )
        load = Load(
            self.exercise.id,
            self.exercise.file,
            self.file.source,
            guards,
            self._traced,
            self._watch_imports,
            self._default_modes,
            dict(self._given),
            self._stand_ins,
        )
        try:
            reply, _ = self._exchange(sandbox, load, Packing())
        except Exception:
            self._stop()
            raise
        if isinstance(reply, Loaded):
            self.modes = reply.modes
        for probe in self._probes.values():
            self._exchange(sandbox, LoadProbe(probe.name, probe.code), Packing())

    def _exchange(
        self, sandbox: Sandbox, request: Request, packing: Packing
    ) -> tuple[Reply, list[torch.Tensor]]:
        """Send a request and wait for its reply within the time that the test has left."""
        seconds = self._budget.left
        if seconds <= 0:
            raise TimedOut(self._time_is_up())
        begin, self._excused, self._shown = time.monotonic(), 0.0, None
        try:
            reply, tensors = self._asked(sandbox, request, packing, seconds)
        except TimeoutError:
            # All of its time is used, even if part of the wait was excused.
            self._spend(begin, at_least=seconds)
            self._stop()
            self._budget.time_out()
            # Later output may have pushed the stack out.
            stack = self.output.take_stack() or self._shown or b""
            frame = self.file.last_frame(stack)
            library = imported_library(stack, self.exercise.file)
            raise TimedOut(self._time_is_up(frame, library), frame) from None
        except ChannelClosed:
            status = self._stop()
            # The time before the death counts; otherwise, dying late in every test would be free.
            self._spend(begin)
            stack = self.output.take_stack()
            frame = self.file.last_frame(stack)
            if stack.startswith(ABORTED):
                status = -signal.SIGABRT
            raise SandboxDied(cause_of_death(status, frame), frame) from None
        except ProtocolError as error:
            self._stop()
            self._spend(begin)
            raise SandboxDied(f"Your code gave an answer that cannot be read: {error}.") from None
        seconds = time.monotonic() - begin
        self._take_reports(sandbox)
        if seconds > _SHORT_SECONDS:
            self._excuse_delay(sandbox, seconds)
        self._forget_stack()
        self._spend(begin)
        if isinstance(reply, Returned) and reply.raised is not None:
            self.raised.append(self.error_of(reply.raised))
        return self._meaning(reply), tensors

    def _asked(
        self, sandbox: Sandbox, request: Request, packing: Packing, seconds: float
    ) -> tuple[Reply, list[torch.Tensor]]:
        """Ask the sandbox; until it replies, answer its calls of functions that the solution replaces.

        Raises the errors of `Sandbox.ask`.
        """
        begin = time.monotonic()
        reply, tensors = sandbox.ask(request, packing, seconds, self._more_time)
        while isinstance(reply, StandInCall | StandInBackward):
            named = reply.function in self._stand_ins if isinstance(reply, StandInCall) else True
            if not self._stand_ins or not named or self.solution is None:
                raise ProtocolError("it asks for a function that the solution does not replace")
            answer, packing = self.solution.stand_in(self.test, reply)
            left = begin + seconds + self._excused - time.monotonic()
            if left <= 0:
                raise TimeoutError
            reply, tensors = sandbox.ask(answer, packing, left, self._more_time)
        return reply, tensors

    def _spend(self, begin: float, at_least: float = 0.0) -> None:
        self._budget.spend(max(at_least, time.monotonic() - begin - self._excused))
        self._excused = 0.0

    def _more_time(self, sandbox: Sandbox) -> float:
        """Return extra seconds for a call whose time is up; if there are none, its stack stays printed."""
        granted = self._excuse_delay(sandbox, self._budget.limit)
        if granted > _LEAST_SECONDS:
            return granted
        self._forget_stack()
        begin = time.monotonic()
        sandbox.show_stack()
        self._excused += time.monotonic() - begin
        self._shown = self.output.last_stack
        if not imported_library(self._shown, self.exercise.file):
            return 0.0
        granted = self._budget.excuse(self._budget.limit)
        self._excused += granted
        return granted

    def _forget_stack(self) -> None:
        """Remove the stack of a call that continued from the output."""
        if self._shown is not None:
            self.output.take_stack()
            self._shown = None

    def _excuse_delay(self, sandbox: Sandbox, most: float) -> float:
        """Excuse the running call's waits for a processor, at `most` this long; returns the seconds."""
        delayed = sandbox.delayed()
        granted = self._budget.excuse(min(most, delayed - self._delayed))
        self._delayed = delayed
        self._excused += granted
        return granted

    def _time_is_up(self, frame: Frame | None = None, library: str = "") -> str:
        """Return the sentence about a timeout: of the exercise, a share, or a call, maybe in an import."""
        if self._budget.is_used_up:
            share = self._budget.share or "this exercise"
            return (
                f"The time for {share} ({self.exercise.seconds:g} s) is used up. "
                "First make your code faster."
            )
        if library:
            at = f" at line {frame.line}, in {frame.function}" if frame else ""
            return (
                f"Your code gave no answer within {self._budget.limit:g} s. It was still importing {library}"
                f"{at}, which is slow the first time: import less, or try again."
            )
        return (
            f"Your code gave no answer within {self._budget.limit:g} s.{_running(frame)} "
            "Is there a loop that never ends, or a wait for something that never comes?"
        )

    def _stop(self) -> int:
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is None:
            return 0
        status = sandbox.stop()
        self._take_reports(sandbox)
        return status

    def _take_reports(self, sandbox: Sandbox) -> None:
        self.reports.update(dict.fromkeys(sandbox.take_reports()))

    def error_of(self, reply: Raised) -> StudentError:
        """Return the exception to raise in the judge for one that the sandbox reports.

        Raises JudgeError if a probe uses a name that its source does not define.
        """
        return self.file.error_of(reply, self._probes.values())

    def _meaning(self, reply: Reply) -> Reply:
        """Return the reply if it is an answer; raises StudentError or Forbidden otherwise."""
        match reply:
            case Raised():
                self.raised.append(error := self.error_of(reply))
                raise error
            case ForbiddenReply(name, frames):
                reason = next(
                    (r.reason for r in self.exercise.forbidden if name in r.operators + r.names),
                    "see the exercise's text",
                )
                raise Forbidden(
                    f"{clean(name, 80)} is not allowed here: {reason}.",
                    next(reversed(self.file.frames(frames)), Frame(0, "")),
                )
        return reply


def derive_seed(seed: int, *names: str) -> int:
    """Return a seed for draws under these names, from a run's or test's seed; the same on every machine."""
    text = "/".join([str(seed), *names])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def _running(frame: Frame | None) -> str:
    return f" It was still running line {frame.line}, in {frame.function}." if frame else ""
