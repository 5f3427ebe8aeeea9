"""Watch a student's running code for operators and names that the exercise forbids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from sys import _getframe, setprofile
from threading import get_ident
from traceback import walk_tb
from types import FrameType, FunctionType, ModuleType

from grader.sandbox.inside.absent import forbid_name, forbid_operators
from grader.sandbox.inside.stand_in import OWN_CODE
from grader.sandbox.private import keep_builtins
from grader.sandbox.wire.messages import PROBE_FILE, Guard, Raised
from grader.sandbox.wire.values import MAX_TEXT

keep_builtins(globals())


class ForbiddenUse(RuntimeError):
    """Raised in the student's code when it reaches a forbidden operator or name."""


# The file, the line and the function of one frame of a stack.
Line = tuple[str, int, str]


class Seen:
    """A forbidden operator or name that was reached, and the stack that led there, outermost first."""

    def __init__(self, name: str) -> None:
        self.name = name
        walked = [(f.f_code.co_filename, f.f_lineno, f.f_code.co_name) for f in _frames()]
        self.stack: list[Line] = walked[::-1]


class OperatorWatch:
    """A context in which the operators and names of a guard raise, and are remembered.

    A student's `except` cannot hide a use, since `seen` keeps the first one. A probe may use a name that it
    writes out. Whether the context is entered is kept in a closure, so changing this object or its class has no
    effect.
    """

    def __init__(self, guard: Guard, own_file: str) -> None:
        self.seen: Seen | None = None
        self.operators = guard.operators
        depth, thread = 0, 0

        def enter(step: int) -> None:
            nonlocal depth, thread
            depth += step
            thread = get_ident()

        def refuse(name: str) -> None:
            if depth and not _is_ours(name, own_file):
                self.seen = self.seen or Seen(name)
                # Raising in another thread would end it, and the code that waits for it would hang.
                if get_ident() == thread:
                    raise ForbiddenUse(f"{name} is not allowed here")

        self._enter, self.refuse = enter, refuse
        forbid_operators({name: partial(refuse, name) for name in guard.operators})
        # The files with the code of forbidden functions.
        self.files: set[str] = set()
        # The rule's first name is checked first, and reported.
        for name in reversed(guard.names):
            self.files |= forbid_name(name, partial(refuse, name))

    def __enter__(self) -> None:
        self._enter(1)

    def __exit__(self, *_: object) -> None:
        self._enter(-1)


def _frames() -> Iterator[FrameType]:
    """Yield all frames from here outwards, including our own, which are hidden from other code."""
    frame: FrameType | None = _getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_ours(name: str, own_file: str) -> bool:
    """Whether a stand-in uses a name, or a probe that writes it out, and not student code that they call."""
    for frame in _frames():
        if frame.f_code in OWN_CODE:
            return True
        file = frame.f_code.co_filename
        if file == PROBE_FILE:
            return _names(frame, name)
        if _is_own(file, own_file):
            break
    return False


def _names(frame: FrameType, dotted: str) -> bool:
    """Whether a function's code has a dotted name, from a module or class that its own module imports."""
    written = set(frame.f_code.co_names)
    if dotted.startswith("torch.Tensor."):
        return dotted.rpartition(".")[2] in written
    # An import within the function shows the module's name; an import at the top may have renamed it.
    roots = set(written)
    for name in written:
        value = frame.f_globals.get(name)
        if isinstance(value, ModuleType | FunctionType | type):
            owner = "" if isinstance(value, ModuleType) else f"{value.__module__}."
            roots.add(f"{owner}{value.__name__}")
    parts = dotted.split(".")
    return any(
        ".".join(parts[:end]) in roots and written.issuperset(parts[end:])
        for end in range(1, len(parts) + 1)
    )


class GuardedCall:
    """All watches of a call together; with `traced`, also a watch for references of operators.

    PyTorch has references of its operators in Python (torch._refs, torch._decomp), which dispatch other
    operators. The judge asks for `traced` if a file names a way to them.
    """

    def __init__(self, watches: list[OperatorWatch], traced: bool) -> None:
        self._watches = watches
        self._references = {
            name.partition("::")[2]: (watch, name) for watch in watches for name in watch.operators
        }
        self._looks = traced and bool(self._references)

    def __enter__(self) -> GuardedCall:
        for watch in self._watches:
            watch.__enter__()
        if self._looks:
            setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        if self._looks:
            setprofile(None)
        for watch in reversed(self._watches):
            watch.__exit__()

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        """Refuse a reference of a forbidden operator."""
        code = frame.f_code
        if event != "call" or _INNER_FILE not in code.co_filename:
            return
        # Code that references share, such as hardtanh and relu6, has an underscore before its name.
        for own in (code.co_name, code.co_name.removeprefix("_")):
            if own in self._references:
                watch, name = self._references[own]
                watch.refuse(name)


# The beginning of torch's private packages.
_INNER_FILE = str(Path("torch", "_"))

MAX_FRAMES = 20
MAX_WALKED = 20_000


def raised(error: BaseException, own_file: str) -> Raised:
    """Return the reply for an exception; `own_file` is the student's file in tracebacks."""
    stack = _stack_of(error)
    files = [file for file, _, _ in stack]
    probe = files.index(PROBE_FILE) if PROBE_FILE in files else None
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 (the student's own __str__)
        text = ""
    return Raised(
        type_name=type(error).__name__[:MAX_TEXT],
        ancestry=tuple(kind.__name__[:MAX_TEXT] for kind in type(error).__mro__[:20]),
        text=text[:MAX_TEXT],
        frames=own_frames(stack, own_file),
        # Not if the student's code called back into the probe.
        in_probe=probe is not None and not any(_is_own(file, own_file) for file in files[probe:]),
        probe=_last_in_probe(error, own_file) if probe is not None else None,
    )


def _last_in_probe(error: BaseException, own_file: str) -> tuple[str, int] | None:
    """Return the probe and the line where an error was raised, None if a student's line is further in."""
    place = None
    for frame, line in islice(walk_tb(error.__traceback__), MAX_WALKED):
        file = frame.f_code.co_filename
        if file == PROBE_FILE:
            place = str(frame.f_globals.get("__name__"))[:MAX_TEXT], line
        elif _is_own(file, own_file):
            place = None
    return place


def own_frames(stack: Sequence[Line], own_file: str) -> tuple[tuple[int, str], ...]:
    """Return the student's own innermost lines of a stack, each with its function."""
    own = [(line, name[:MAX_TEXT]) for file, line, name in stack if _is_own(file, own_file)]
    return tuple(own[-MAX_FRAMES:])


def _is_own(file: str, own_file: str) -> bool:
    """Whether `file` is the student's; a probe may have imported it again, by its full path."""
    return file == own_file or file.endswith(f"/{own_file}")


def _stack_of(error: BaseException) -> list[Line]:
    """Return the lines of a traceback, outermost first, without reading files as extract_tb would."""
    walked = islice(walk_tb(error.__traceback__), MAX_WALKED)
    return [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in walked]
