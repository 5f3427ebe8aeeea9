"""What a submission can do to end a test: every one of these is about the submission and may cost it points.

A fault of the grader is a `grader.errors.GraderError` and never stands here.

    SubmissionFailure (Exception)
    ├── CheckFailed        a check of the suite did not hold
    ├── StudentError       the student's code raised (also a subclass of the builtin type that it raised)
    ├── Forbidden          the student's code used what the exercise does not allow
    ├── TimedOut           no answer before the deadline
    │   └── NoTime         earlier tests left it no time
    └── SandboxDied        the process ended in the middle of a call
"""

from __future__ import annotations

import builtins
import re
import signal
from collections.abc import Iterable
from functools import cache

import msgspec

from grader.findings import message_of
from grader.judge.text import finding
from grader.results import Cause
from grader.sandbox.surroundings import without_paths
from grader.sandbox.wire.messages import Raised
from grader.text import clean, clean_lines

# An enemy's traceback is as long as a frame can be; the last line is what is shown.
MAX_FRAMES = 20
MAX_TEXT = 2_000


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """One line of the student's own file in a traceback."""

    line: int
    function: str


class SubmissionFailure(Exception):
    """The submission ended the test; the text is for the student."""


class CheckFailed(SubmissionFailure, AssertionError):
    """A check of the suite did not hold: the finding says what it saw, in these lines.

    Where the mistake lies in another function than the test is about, `place` names that one.
    """

    def __init__(
        self, lines: str | Iterable[str], cause: Cause = Cause.MISTAKE, place: str = ""
    ) -> None:
        self.finding = finding([lines] if isinstance(lines, str) else lines, cause)
        self.place = place
        super().__init__(message_of(self.finding))


class Forbidden(SubmissionFailure):
    """The submission used an operator or a name that the exercise does not allow, at `frame`."""

    def __init__(self, text: str, frame: Frame) -> None:
        super().__init__(text)
        self.frame = frame


class TimedOut(SubmissionFailure):
    """The submission did not answer before its deadline; at `frame` it still ran."""

    def __init__(self, text: str, frame: Frame | None = None) -> None:
        super().__init__(text)
        self.frame = frame


class NoTime(TimedOut):
    """The earlier tests of its share left a test no time."""


class SandboxDied(SubmissionFailure):
    """The sandbox's process ended while it owed an answer; `frame` ran last."""

    def __init__(self, text: str, frame: Frame | None = None) -> None:
        super().__init__(text)
        self.frame = frame


class StudentError(SubmissionFailure):
    """An exception that the student's code raised: its type, message and the student's own lines.

    `type_name` and `text` are what the sandbox said, bounded and cleaned; `frames` lists the
    lines of the student's file from the outermost call inward. A NotImplementedError is `unwritten`
    unless it was PyTorch's, of an operator that a device lacks, say: no `raise` of the student's own.
    `misuse` says what failed where a probe raised, and not a line of the student's. `probe` is the module and
    the line of a probe that come after the student's last line.
    """

    type_name: str = "Exception"
    text: str = ""
    frames: tuple[Frame, ...] = ()
    unwritten: bool = True
    misuse: str = ""
    probe: tuple[str, int] | None = None

    def __str__(self) -> str:
        # KeyError, which may stand beside us in the bases, would show the repr.
        text = f"{self.misuse} ({self.text})" if self.misuse else self.text
        return f"{self.type_name}: {text}" if text else self.type_name


# Only these builtin types are taken at their name: an enemy can say any name it likes.
_ADOPTED = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    # Unicode errors want five arguments; a StopIteration would end a generator of the grader in silence.
    and not issubclass(kind, (Warning, UnicodeError, BaseExceptionGroup, StopIteration))
)


@cache
def _error_type(name: str) -> type[StudentError]:
    builtin = getattr(builtins, name)
    return type(f"Student{name}", (StudentError, builtin), {})


def student_error(
    type_name: str, ancestry: tuple[str, ...], text: str, frames: tuple[Frame, ...]
) -> StudentError:
    """The exception to raise in the judge for one raised in the sandbox.

    `ancestry` names the classes of the exception, nearest first; the first one that is a builtin
    exception becomes a base class, so that `pytest.raises(ValueError)` works as written.
    """
    known = next((name for name in ancestry if name in _ADOPTED), "Exception")
    kind = StudentError if known == "Exception" else _error_type(known)
    error = kind(f"{type_name}: {text}" if text else type_name)
    error.type_name, error.text, error.frames = type_name, text, frames
    return error


def adopted(error: StudentError) -> str:
    """The name of the builtin exception that an exception of the sandbox is based on."""
    return next(base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins")


# --- what a sandbox says, in words ----------------------------------------------------------------

_OF_AUTOGRAD = re.compile(r"gradient|backward|require grad|grad_fn|inplace operation")


# As the worker says it, too.
KEEP_NAMES = "keep the names of the stub"
KEEP_PARAMETERS = "keep the parameters of the stub"


def missing_name(reply: Raised, module: str) -> str:
    """The name that a probe looked for in the student's module, and did not find."""
    prefix = f"module {module!r} has no attribute "
    if reply.type_name != "AttributeError" or not reply.text.startswith(prefix):
        return ""
    name = reply.text.removeprefix(prefix).strip("'")
    return name if name.isidentifier() else ""


_SIGNATURE = re.compile(
    r"(?P<name>[\w.]+)\(\) (got an unexpected keyword argument '(?P<keyword>\w+)'|"
    r"got multiple values for argument |got some positional-only |missing \d|takes )"
)


def misfitting_call(reply: Raised) -> tuple[str, str]:
    """The function whose parameters do not fit a call, by its qualified name, and a text that says so.

    Both are empty for any other exception. Python raises this one before a line of the function runs.
    """
    match = _SIGNATURE.match(reply.text) if reply.type_name == "TypeError" else None
    if match is None:
        return "", ""
    if match["keyword"]:
        wrong = f"{match['name']} has no parameter {match['keyword']!r}, which the exercise passes by name"
    else:
        wrong = f"{match['name']} does not take what the exercise passes ({clean(reply.text, 200)})"
    return match["name"], f"{wrong}; {KEEP_PARAMETERS}"


def raised_error(reply: Raised, frames: tuple[Frame, ...]) -> StudentError:
    """The exception for a reply; one raised in a probe is about what the code returned, and says so."""
    text, misuse = clean_lines(without_paths(reply.text), MAX_TEXT), ""
    if reply.in_probe:
        text = text.partition("\n")[0].rstrip(".")
        # autograd goes back through the student's code without running a line of it.
        failed = reply.type_name == "RuntimeError" and _OF_AUTOGRAD.search(text)
        misuse = "your code returned something that could not be used"
        if failed:
            misuse = "the backward pass through what your code returned failed"
        elif "NoneType" in text:
            misuse = "your code returned None (is a return missing?)"
    error = student_error(clean(reply.type_name, 80), reply.ancestry, text, frames)
    error.misuse = misuse
    if reply.probe is not None:
        error.probe = clean(reply.probe[0], 80), reply.probe[1]
    return error


def cause_of_death(status: int, frame: Frame | None) -> str:
    """The sentence about a process that ended by itself, from its exit status (negative: by that signal)."""
    where = f" at line {frame.line}, in {frame.function}" if frame else ""
    if status >= 0:
        return (
            f"Your code ended the whole process (exit code {status}){where}: a module must not call "
            "os._exit, and nothing after it was run."
        )
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    causes = {
        "SIGSEGV": "a segmentation fault: a recursion too deep in C code, or memory used wrongly",
        "SIGKILL": "it was killed, for using more processor time or memory than an exercise may",
        "SIGXCPU": "it used up the processor time that an exercise may use",
        "SIGXFSZ": "it wrote a file larger than is allowed",
        "SIGABRT": "it aborted, as libraries do when they run out of memory or are misused",
    }
    cause = causes.get(name, "a signal ended it")
    return f"Your code crashed the whole process ({name}){where}: {cause}."
