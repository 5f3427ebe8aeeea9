"""The ways in which a submission can end a test. Each of them may cost it points.

A fault of the grader is a `grader.errors.GraderError` instead.

    SubmissionFailure (Exception)
    ├── CheckFailed        a check of the suite did not hold
    ├── StudentError       the student's code raised (also a subclass of the builtin type that it raised)
    ├── Forbidden          the student's code used an operator or a name that the exercise forbids
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

# A hostile sandbox can report a traceback as long as a message; only its last line is shown.
MAX_FRAMES = 20
MAX_TEXT = 2_000


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """One line of the student's own file in a traceback."""

    line: int
    function: str


class SubmissionFailure(Exception):
    """The submission ended the test; the text is for the student."""


class CheckFailed(SubmissionFailure, AssertionError):
    """A check of the suite did not hold: the finding consists of these lines.

    If the mistake is in another function than the test's subject, `place` names it.
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
    """The submission did not answer before its deadline; it was still running at `frame`."""

    def __init__(self, text: str, frame: Frame | None = None) -> None:
        super().__init__(text)
        self.frame = frame


class NoTime(TimedOut):
    """Earlier tests of its share left a test no time."""


class SandboxDied(SubmissionFailure):
    """The sandbox's process ended while it owed an answer; `frame` ran last."""

    def __init__(self, text: str, frame: Frame | None = None) -> None:
        super().__init__(text)
        self.frame = frame


class StudentError(SubmissionFailure):
    """An exception that the student's code raised: its type, message and the student's own lines.

    type_name, text: as the sandbox reports them, bounded and cleaned.
    frames: the lines of the student's file, from the outermost call inward.
    unwritten: whether a NotImplementedError is the student's own, and not PyTorch's for a missing operator.
    misuse: a description of the failure if a probe raised, and not a line of the student's.
    probe: the module and line of the probe that ran after the student's last line.
    meant: a sentence that suggests a name for an undefined one.
    """

    type_name: str = "Exception"
    text: str = ""
    frames: tuple[Frame, ...] = ()
    unwritten: bool = True
    misuse: str = ""
    probe: tuple[str, int] | None = None
    meant: str = ""

    def __str__(self) -> str:
        # KeyError, which may be another base, would show the repr.
        text = f"{self.misuse} ({self.text})" if self.misuse else self.text
        return f"{self.type_name}: {text}" if text else self.type_name


# Only these builtin types are adopted: a hostile sandbox can report any name.
_ADOPTED = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    # Unicode errors need five arguments; a StopIteration would silently end a generator of the grader.
    and not issubclass(kind, (Warning, UnicodeError, BaseExceptionGroup, StopIteration))
)


@cache
def _error_type(name: str) -> type[StudentError]:
    builtin = getattr(builtins, name)
    return type(f"Student{name}", (StudentError, builtin), {})


def student_error(
    type_name: str, ancestry: tuple[str, ...], text: str, frames: tuple[Frame, ...]
) -> StudentError:
    """Return the exception to raise in the judge for one raised in the sandbox.

    `ancestry` names the classes of the exception, nearest first. The first builtin exception among them becomes
    a base class, so `pytest.raises(ValueError)` works as written.
    """
    known = next((name for name in ancestry if name in _ADOPTED), "Exception")
    kind = StudentError if known == "Exception" else _error_type(known)
    error = kind(f"{type_name}: {text}" if text else type_name)
    error.type_name, error.text, error.frames = type_name, text, frames
    return error


def adopted(error: StudentError) -> str:
    """Return the name of the builtin exception that is the base of an exception from the sandbox."""
    return next(base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins")


# --- replies of a sandbox as messages -------------------------------------------------------------

_OF_AUTOGRAD = re.compile(r"gradient|backward|require grad|grad_fn|inplace operation")


# The worker uses the same words.
KEEP_NAMES = "keep the names of the stub"
KEEP_PARAMETERS = "keep the parameters of the stub"
# How a probe's failure on a value of None is described.
RETURNED_NONE = "your code returned None (is a return missing?)"


def missing_name(reply: Raised, module: str) -> str:
    """Return the name that a probe did not find in the student's module, empty for any other exception."""
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
    """Return the qualified name of a function whose parameters do not fit a call, and a message about it.

    Both are empty for any other exception. Python raises this one before the function's first line runs.
    """
    match = _SIGNATURE.match(reply.text) if reply.type_name == "TypeError" else None
    if match is None:
        return "", ""
    if match["keyword"]:
        wrong = f"{match['name']} has no parameter {match['keyword']!r}, which the exercise passes by name"
    else:
        wrong = (
            f"{match['name']} does not accept the exercise's arguments ({clean(reply.text, 200)})"
        )
    return match["name"], f"{wrong}; {KEEP_PARAMETERS}"


def raised_error(reply: Raised, frames: tuple[Frame, ...]) -> StudentError:
    """Return the exception for a reply; if a probe raised it, the message blames the code's return value."""
    text, misuse = clean_lines(without_paths(reply.text), MAX_TEXT), ""
    if reply.in_probe:
        text = text.partition("\n")[0].rstrip(".")
        # A backward pass through the student's code runs no line of it.
        failed = reply.type_name == "RuntimeError" and _OF_AUTOGRAD.search(text)
        misuse = "your code returned something that could not be used"
        if failed:
            misuse = "the backward pass through the result of your code failed"
        elif "NoneType" in text:
            misuse = RETURNED_NONE
    error = student_error(clean(reply.type_name, 80), reply.ancestry, text, frames)
    error.misuse = misuse
    if reply.probe is not None:
        error.probe = clean(reply.probe[0], 80), reply.probe[1]
    return error


def cause_of_death(status: int, frame: Frame | None) -> str:
    """Return the sentence about a process that ended, by its exit status (negative: the number of a signal)."""
    where = f" at line {frame.line}, in {frame.function}" if frame else ""
    if status >= 0:
        return (
            f"Your code ended the whole process (exit code {status}){where}: a module must not call "
            "os._exit. Nothing after it ran."
        )
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    causes = {
        "SIGSEGV": "a segmentation fault, from too deep a recursion in C code or wrong use of memory",
        "SIGKILL": "it was killed for using more processor time or memory than an exercise may",
        "SIGXCPU": "it used up the processor time of the exercise",
        "SIGXFSZ": "it wrote a file that is larger than allowed",
        "SIGABRT": "it aborted, as libraries do when they run out of memory or are misused",
    }
    cause = causes.get(name, "a signal ended it")
    return f"Your code crashed the whole process ({name}){where}: {cause}."
