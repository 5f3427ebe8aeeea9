"""The judge as a process of its own. Each message is a line of JSON.

Theory of operation. The process that grades (a command, a batch, a notebook in which a student's code has
already run) is not the judge. It starts one or more judges and one fork server for all of them. Each judge is
a fresh interpreter that holds the suites and, once they import it, torch. It reads `Assignment`s from its
standard input. It writes `TestDone`s, then a `Judgment` or a `JudgeFault`, to its original standard output.
Nothing else can be written there, since descriptor 1 leads to stderr from then on. A judge ends when its
input ends.

If a judge takes more processor time or memory than any honest judgment, the system ends it, even in the middle
of a C function. The exit status says why, and the submission loses the exercise. The limit on wall-clock time
is far looser, since a busy machine uses it up as well. Exceeding it is a fault of the grader.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from grader.course.manifest import Course, Exercise, load_course
from grader.course.suites import tests_of
from grader.errors import GraderError, IsolationError, JudgeError, SandboxError
from grader.judge import preloading
from grader.judge.assignment import (
    AS_HANDED_IN,
    Assignment,
    AuthorOptions,
    CallOff,
    GradingOptions,
    JudgeFault,
    Judgment,
    TestDone,
)
from grader.judge.scoring import score_alike
from grader.results import Outcome, TestResult
from grader.sandbox.client import CalledOff, SandboxSource
from grader.sandbox.forking import CAN_FORK, ForkServerProcess, ForkServerSandboxes
from grader.sandbox.spawning import SpawnedSandboxes
from grader.sandbox.surroundings import open_standard_streams

if TYPE_CHECKING:
    from grader.judge.recognition import KnownMistakes
    from grader.judge.run import Suites

# Limits of a judge's own work on one exercise, without the time of the student's code. An honest judgment takes
# one or two seconds of processor time; on the clock, a judge also waits for other programs.
_PROCESSOR_SECONDS = 60.0
_CLOCK_SECONDS = 900.0
# Private memory; torch and the suites take less than half a GiB.
_MEMORY_BYTES = 2 * 2**30
_OUT_OF_MEMORY = 77
_PIPE_BYTES = 1 << 16

_FAULTS: dict[str, type[GraderError]] = {
    error.__name__: error for error in (JudgeError, SandboxError, IsolationError)
}
_decode_assignment = msgspec.json.Decoder(Assignment).decode
_decode_answer = msgspec.json.Decoder(TestDone | Judgment | JudgeFault).decode
_encode = msgspec.json.Encoder().encode
_CALL_OFF = _encode(CallOff()) + b"\n"


class JudgeOverrun(Exception):
    """A judge took more time or memory than any honest submission needs; the text says which."""

    def __init__(self, outcome: Outcome, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


class Judge:
    """A judge process, seen from the process that grades.

    `control` is a judge's connection to the fork server, None if sandboxes are not forked. `program` is the
    module that the process runs.
    """

    def __init__(
        self, control: socket.socket | None, *, walls: bool, program: str = "grader.judge.process"
    ) -> None:
        arguments = ["--no-walls"] if not walls else []
        descriptors = []
        if control is not None:
            descriptors = [control.fileno()]
            arguments.append(str(control.fileno()))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=descriptors,
            # Not the terminal's group: a Ctrl-C is for the grader, which hangs up.
            start_new_session=True,
            env=clean_environment(),
        )

    def judge(
        self,
        assignment: Assignment,
        done: Callable[[TestResult], None] | None = None,
        begun: Callable[[], None] = lambda: None,
    ) -> Judgment:
        """Judge an exercise; `done` is called with every test as it ends.

        `begun` is called once the judge can be told to call the judgment off.

        Raises JudgeOverrun if the judge takes too much time or memory, JudgeError for a fault or if the process
        has ended.
        """
        report_tests = done is not None
        request = msgspec.structs.replace(assignment, report_tests=report_tests)
        for line in self.ask(request, begun):
            match _decode_answer(line):
                case TestDone(result):
                    if done is not None:
                        done(result)
                case Judgment() as judgment:
                    return judgment
                case JudgeFault(message, kind):
                    raise _FAULTS[kind](message)
        raise JudgeError(
            f"The judge ended without a verdict on {assignment.exercise!r} "
            f"(exit code {self._process.wait()}); its last output is above."
        )

    def ask(
        self, request: msgspec.Struct, sent: Callable[[], None] = lambda: None
    ) -> Iterator[bytes]:
        """Send a request, call `sent`, and yield the lines of the answer until the process ends.

        Raises JudgeOverrun or JudgeError if a limit ended the process.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        # If the judge ended, its output says more than a broken pipe. If another thread closed it, the pipes
        # are closed files.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(_encode(request) + b"\n")
            self._process.stdin.flush()
        sent()
        while line := self._line():
            yield line
        _raise_overrun(self._process.wait())

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        try:
            return self._process.stdout.readline()
        except ValueError:
            return b""

    def call_off(self) -> None:
        """End the judgment with a JudgeError if the judge is waiting for the student's code.

        The judge is then ready for the next assignment. A judge that is computing continues, and so does one
        whose sandboxes are not forked.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(_CALL_OFF)
            self._process.stdin.flush()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the process at once; its pipes stay open for the thread that reads them."""
        self._process.terminate()

    def close(self) -> None:
        """End the process without waiting for its judgment, and close its pipes."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()


def _raise_overrun(status: int) -> None:
    """Raise JudgeOverrun or JudgeError if the exit status shows that a limit ended the judge."""
    if status == _OUT_OF_MEMORY:
        raise JudgeOverrun(
            Outcome.ERROR,
            "Judging the results of your code took more memory than a judge may use "
            f"({_MEMORY_BYTES >> 30} GiB). Does it return something huge?",
        )
    if status < 0 and -status == getattr(signal, "SIGPROF", 0):
        raise JudgeOverrun(
            Outcome.TIMEOUT,
            "Judging the results of your code took more than a minute of processor time. "
            "Does it return something huge?",
        )
    if status < 0 and -status == getattr(signal, "SIGALRM", 0):
        raise JudgeError(
            f"The judge did not finish within {_CLOCK_SECONDS / 60:g} minutes. The machine is too busy, or the "
            "judge hangs. Try again."
        )


# Python's other variables change how it runs code or prints, or make it wait for input. PYTHONOPTIMIZE, for
# example, would remove the asserts of a suite.
_SAFE_VARIABLES = ("PYTHONHOME", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONUTF8")
_UNSAFE_PREFIXES = ("PYTHON", "PYTEST_")


def clean_environment() -> dict[str, str]:
    """Return the caller's environment without variables that would change a judgment."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name in _SAFE_VARIABLES or not name.startswith(_UNSAFE_PREFIXES)
    }
    return {**variables, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}


@contextlib.contextmanager
def judges(
    count: int = 1,
    *,
    preload: Sequence[str] = (),
    walls: bool = True,
    fork: bool = CAN_FORK,
    program: str = "grader.judge.process",
) -> Iterator[list[Judge]]:
    """Start judges and, where processes can be forked, the fork server that they share.

    `preload` names modules to import in the fork server, in this order. Without `walls`, student code is not
    confined.
    """
    open_standard_streams()
    server = ForkServerProcess(count, walls=walls, preload=preload) if fork else None
    controls = server.controls if server is not None else [None] * count
    started = [Judge(control, walls=walls, program=program) for control in controls]
    try:
        # Each judge now holds its end; the fork server ends with the last judge.
        for control in controls:
            if control is not None:
                control.close()
        yield started
    finally:
        for judge in started:
            judge.close()
        if server is not None:
            server.close()


def judge_source(
    judge: Judge,
    course: Course,
    exercise: Exercise,
    source: bytes,
    options: GradingOptions,
    done: Callable[[TestResult], None] | None = None,
    *,
    author: AuthorOptions = AS_HANDED_IN,
    learn: bool = False,
    begun: Callable[[], None] = lambda: None,
) -> Judgment:
    """Judge a source that `settle` left open.

    If the judge takes too much time or memory, the submission loses the exercise. With `learn`, the judge first
    runs the course's solution to list late imports, which pays off for many sources.

    Raises GraderError for a fault of the grader.
    """
    manifest = str(course.folder / "course.toml")
    assignment = Assignment(manifest, exercise.id, source, options, author, learn=learn)
    try:
        return judge.judge(assignment, done, begun)
    except JudgeOverrun as overrun:
        tests = tests_of(course, exercise, options.suites)
        result = score_alike(exercise, tests, overrun.outcome, str(overrun))
        return Judgment(result, options.required_walls)


# --- inside the judge -----------------------------------------------------------------------------

Reply = Callable[[msgspec.Struct], None]
# For a run of the course's solution, including its slow imports.
_LEARNING_SECONDS = 120
# The late imports of exercises, by the manifest's path and the exercise's id.
_Learned = dict[tuple[str, str], tuple[str, ...]]


def main(arguments: list[str]) -> None:
    """Serve assignments until the input ends."""
    # Not at the top: the process that grades imports this module, but neither pytest nor torch.
    from grader.judge.recognition import KnownMistakes
    from grader.judge.run import Suites

    suites, mistakes, learned = Suites(), KnownMistakes(), _Learned()
    serve(
        arguments,
        lambda line, sandboxes, reply: _judge(line, sandboxes, suites, mistakes, learned, reply),
    )


def serve(
    arguments: list[str],
    answer: Callable[[bytes, SandboxSource, Reply], msgspec.Struct],
) -> None:
    """Answer every line of standard input, within the limits of a judge, until the input ends.

    `answer` gets the line, the source of sandboxes, and a function that sends a message before the answer.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    controls = [int(argument) for argument in arguments if argument.isdecimal()]
    sandboxes: SandboxSource
    if controls:
        sandboxes = ForkServerSandboxes(socket.socket(fileno=controls[0]), (sys.stdin.fileno(),))
    else:
        sandboxes = SpawnedSandboxes("--no-walls" not in arguments)

    def reply(message: msgspec.Struct) -> None:
        try:
            answers.write(_encode(message) + b"\n")
            answers.flush()
        except BrokenPipeError:
            # The process that asked was killed, so nobody reads a verdict or a traceback.
            os._exit(1)

    _limit_memory()
    for line, is_followed in _lines(sys.stdin.fileno()):
        if line == _CALL_OFF:
            continue
        try:
            if is_followed:
                # The sandbox would not see it: it watches the descriptor.
                raise CalledOff
            reply(answer(line, sandboxes, reply))
        except CalledOff:
            reply(JudgeFault("The judgment was called off."))
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)
        limit_time(None)


def _lines(descriptor: int) -> Iterator[tuple[bytes, bool]]:
    """Yield each line of a descriptor, and whether more was read behind it: only a `CallOff` comes there."""
    text = b""
    while True:
        line, end, rest = text.partition(b"\n")
        if end:
            text = rest
            yield line + end, bool(rest)
        elif read := os.read(descriptor, _PIPE_BYTES):
            text += read
        else:
            return


def _limit_memory() -> None:
    if importlib.util.find_spec("resource") is None:
        return
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _MEMORY_BYTES if most == resource.RLIM_INFINITY else min(_MEMORY_BYTES, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def limit_time(exercise: Exercise | None) -> None:
    """Have the system end this process if judging `exercise` takes too long; None ends the limit."""
    # No handler in Python: it would run only after a C function returns.
    if hasattr(signal, "setitimer"):
        processor = _PROCESSOR_SECONDS + 2 * exercise.most_seconds if exercise is not None else 0
        clock = _CLOCK_SECONDS + 2 * exercise.most_seconds if exercise is not None else 0
        signal.setitimer(signal.ITIMER_PROF, processor)
        signal.setitimer(signal.ITIMER_REAL, clock)


def _judge(
    line: bytes,
    sandboxes: SandboxSource,
    suites: Suites,
    mistakes: KnownMistakes,
    learned: _Learned,
    reply: Reply,
) -> Judgment | JudgeFault:
    """Read the course of an assignment, learn late imports if asked to, and judge within the limits."""
    from grader.judge.run import judge_exercise

    assignment = _decode_assignment(line)
    try:
        course = _course(assignment.course)
        exercise = course.exercise(assignment.exercise)
        key = assignment.course, exercise.id
        if key not in learned:
            learned[key] = _late_imports(assignment, course, exercise, sandboxes, suites)
        preload = dict.fromkeys([*exercise.preload, *learned[key]])
        exercise = msgspec.structs.replace(exercise, preload=tuple(preload))
        if "torch" in exercise.preload:
            # Otherwise the first reply with a tensor would pay for the import.
            import_torch()
        limit_time(exercise)
        return judge_exercise(
            course,
            exercise,
            assignment.source,
            assignment.options,
            sandboxes=sandboxes,
            suites=suites,
            mistakes=mistakes,
            done=lambda test: reply(TestDone(test)) if assignment.report_tests else None,
            author=assignment.author,
        )
    except IsolationError as error:
        return JudgeFault(str(error), "IsolationError")
    except SandboxError as error:
        return JudgeFault(str(error), "SandboxError")
    except GraderError as error:
        return JudgeFault(str(error))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 (the border of the process: a fault of the grader must not end the batch)
        sys.excepthook(type(error), error, error.__traceback__)
        return JudgeFault(
            f"The judge failed on {assignment.exercise!r}: {type(error).__name__}: {error}"
        )


def import_torch() -> None:
    """Import torch. Raises GraderError with the command that installs it."""
    try:
        importlib.import_module("torch")
    except (ImportError, OSError) as error:  # OSError: one of its own libraries is missing
        raise GraderError(
            f"PyTorch cannot be imported: {error}. Install it again, in the folder of the course: "
            f"{sys.executable} -m pip install --force-reinstall -c constraints.txt torch"
        ) from error


def _late_imports(
    assignment: Assignment,
    course: Course,
    exercise: Exercise,
    sandboxes: SandboxSource,
    suites: Suites,
) -> tuple[str, ...]:
    """Return the late imports of an exercise from the cache, or learn them if the assignment asks for it."""
    from grader.judge.run import late_imports

    # Without a fork server, each sandbox imports everything again.
    forked = isinstance(sandboxes, ForkServerSandboxes)
    modules = preloading.learned(course, exercise)
    if forked and modules is None and assignment.learn and course.solution_source(exercise):
        # The slow imports happen here, outside of any submission's time.
        patient = msgspec.structs.replace(
            exercise, seconds=max(exercise.seconds, _LEARNING_SECONDS)
        )
        limit_time(patient)
        imports = late_imports(
            course, patient, assignment.options, sandboxes=sandboxes, suites=suites
        )
        if imports is not None:
            preloading.keep(course, exercise, imports)
            modules = preloading.importable(imports)
    return modules or ()


def _course(manifest: str) -> Course:
    try:
        return _read_course(manifest, Path(manifest).read_bytes())
    except OSError:
        return load_course(manifest)


# Reading a manifest takes as long as judging ten tests.
@functools.lru_cache(maxsize=8)
def _read_course(manifest: str, source: bytes) -> Course:  # noqa: ARG001 (the key of the cache)
    return load_course(manifest)


if __name__ == "__main__":
    main(sys.argv[1:])
