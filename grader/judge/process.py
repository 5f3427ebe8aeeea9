"""The judge as a process of its own: what the grader asks of it, and what it says, one JSON line each.

Theory of operation. Whoever grades (a command, a batch, a notebook in which a student's code has
already run) is not the judge. It starts one or more judges, each a fresh interpreter that holds pytest,
the suites and, once they import it, torch; and one fork server for all of them. A judge reads
`Assignment`s from its standard input and writes `TestDone`s, then a `Judgment` or a `JudgeFault` to what was
its standard output; nothing else can be written there, since descriptor 1 leads to stderr from then on.
A judge ends when its input does.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from grader.course.manifest import Course, Exercise, load_course
from grader.errors import GraderError, IsolationError, JudgeError, SandboxError
from grader.judge.assignment import Assignment, GradingOptions, JudgeFault, Judgment, TestDone
from grader.results import TestResult
from grader.sandbox.client import SandboxSource
from grader.sandbox.forking import CAN_FORK, ForkServerProcess, ForkServerSandboxes
from grader.sandbox.spawning import SpawnedSandboxes

if TYPE_CHECKING:
    from grader.judge.collection import Collections


_FAULTS: dict[str, type[GraderError]] = {
    each.__name__: each for each in (JudgeError, SandboxError, IsolationError)
}
_decode_assignment = msgspec.json.Decoder(Assignment).decode
_decode_answer = msgspec.json.Decoder(TestDone | Judgment | JudgeFault).decode
_encode = msgspec.json.Encoder().encode


class Judge:
    """A judge process, seen from whoever grades."""

    def __init__(self, control: socket.socket | None, *, walls: bool) -> None:
        arguments = ["--no-walls"] if not walls else []
        descriptors = []
        if control is not None:
            descriptors = [control.fileno()]
            arguments.append(str(control.fileno()))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "grader.judge.process", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=descriptors,
            # Not the terminal's group: a Ctrl-C is for the grader, which hangs up.
            start_new_session=True,
            env=_environment(),
        )

    def judge(
        self, assignment: Assignment, done: Callable[[TestResult], None] | None = None
    ) -> Judgment:
        """Have an exercise judged; raises JudgeError for a fault of ours or a judge that is gone."""
        self._send(msgspec.structs.replace(assignment, report_tests=done is not None))
        assert self._process.stdout is not None
        for line in self._process.stdout:
            match _decode_answer(line):
                case TestDone(result):
                    if done is not None:
                        done(result)
                case Judgment() as judged:
                    return judged
                case JudgeFault(message, kind):
                    raise _FAULTS[kind](message)
        raise JudgeError(
            f"The judge ended without a verdict on {assignment.exercise!r} "
            f"(exit code {self._process.wait()}); what it printed last stands above."
        )

    @property
    def alive(self) -> bool:
        """Whether its process is still there."""
        return self._process.poll() is None

    def close(self) -> None:
        """Hang up; a judge in the middle of something is not waited for."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()

    def _send(self, assignment: Assignment) -> None:
        assert self._process.stdin is not None
        # The answers say more about a judge that is gone than the broken pipe does.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(_encode(assignment) + b"\n")
            self._process.stdin.flush()


# What has Python run code otherwise than it is written, or stop for somebody who is not there.
_MEDDLING = ("PYTHONBREAKPOINT", "PYTHONINSPECT", "PYTHONOPTIMIZE", "PYTHONWARNINGS")


def _environment() -> dict[str, str]:
    """The caller's environment without what would judge otherwise: a suite stands on its asserts."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_") and name not in _MEDDLING
    }
    return {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}


@contextlib.contextmanager
def judges(
    count: int = 1,
    *,
    preload: Sequence[str] = (),
    walls: bool = True,
    bubblewrap: bool = True,
    fork: bool = CAN_FORK,
) -> Iterator[list[Judge]]:
    """Start judges and, where processes can be forked, the fork server that they share.

    `preload` names the modules that the sandboxes are going to need, the first one first. Without
    `walls` student code is not confined at all, without `bubblewrap` by the inner walls alone.
    """
    server = (
        ForkServerProcess(count, walls=walls, bubblewrap=bubblewrap, preload=preload)
        if fork
        else None
    )
    controls = server.controls if server is not None else [None] * count
    started = [Judge(control, walls=walls) for control in controls]
    try:
        # Each judge holds its end now; the fork server goes when the last judge does.
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
) -> Judgment:
    """Have a judge judge a source that `settle` left open."""
    manifest = str(course.folder / "course.toml")
    assignment = Assignment(manifest, exercise.id, source, options)
    return judge.judge(assignment, done)


def modules_of(exercises: Iterable[Exercise]) -> tuple[str, ...]:
    """What the sandboxes of these exercises want imported beforehand, the first one first."""
    return tuple(dict.fromkeys(module for each in exercises for module in each.preload))


# --- inside the judge -----------------------------------------------------------------------------


def main(arguments: list[str]) -> None:
    """Serve assignments until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    controls = [int(each) for each in arguments if each.isdecimal()]
    sandboxes: SandboxSource
    if controls:
        sandboxes = ForkServerSandboxes(socket.socket(fileno=controls[0]))
    else:
        sandboxes = SpawnedSandboxes("--no-walls" not in arguments)

    def answer(message: TestDone | Judgment | JudgeFault) -> None:
        try:
            answers.write(_encode(message) + b"\n")
            answers.flush()
        except BrokenPipeError:
            # Whoever asked was killed: nobody waits for a verdict, or for a traceback.
            os._exit(1)

    # Here and not above: whoever grades imports this module, and neither pytest nor the suites.
    from grader.judge.collection import Collections

    collections = Collections()

    def tell(test: TestResult) -> None:
        answer(TestDone(test))

    for line in sys.stdin.buffer:
        assignment = _decode_assignment(line)
        done = tell if assignment.report_tests else _ignore
        answer(_judge(assignment, sandboxes, collections, done))


def _ignore(test: TestResult) -> None:
    """Nobody waits for this test."""


def _judge(
    assignment: Assignment,
    sandboxes: SandboxSource,
    collections: Collections,
    done: Callable[[TestResult], None],
) -> Judgment | JudgeFault:
    from grader.judge.run import judge_exercise

    try:
        course = _course(assignment.course)
        judgment = judge_exercise(
            course,
            course.exercise(assignment.exercise),
            assignment.source,
            assignment.options,
            sandboxes=sandboxes,
            collections=collections,
            done=done,
        )
    except IsolationError as error:
        return JudgeFault(str(error), "IsolationError")
    except SandboxError as error:
        return JudgeFault(str(error), "SandboxError")
    except GraderError as error:
        return JudgeFault(str(error))
    except Exception as error:  # noqa: BLE001 (the border of the process: a fault of ours must not end the batch)
        sys.excepthook(type(error), error, error.__traceback__)
        return JudgeFault(
            f"The judge failed on {assignment.exercise!r}: {type(error).__name__}: {error}"
        )
    return Judgment(judgment.result, judgment.walls)


def _course(manifest: str) -> Course:
    try:
        return _read_course(manifest, Path(manifest).read_bytes())
    except OSError:
        return load_course(manifest)


# Reading a manifest takes as long as judging ten tests, and a batch is of one course.
@functools.lru_cache(maxsize=8)
def _read_course(manifest: str, source: bytes) -> Course:  # noqa: ARG001 (what it is kept by)
    return load_course(manifest)


if __name__ == "__main__":
    main(sys.argv[1:])
