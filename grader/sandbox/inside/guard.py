"""Watch a student's code as it runs for operators and names that the exercise does not allow."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from sys import _getframe
from typing import Any

from grader.sandbox.private import keep_builtins
from grader.sandbox.wire.messages import PROBE_FILE, Guard, Raised
from grader.sandbox.wire.values import MAX_TEXT

keep_builtins(globals())


class ForbiddenUse(RuntimeError):
    """Raised into the student's code where it reaches what is not allowed."""


# The file, the line and the function of one frame of a stack.
Line = tuple[str, int, str]


class Seen:
    """What was reached, and the stack that led there, outermost first."""

    def __init__(self, name: str) -> None:
        self.name = name
        walked: list[Line] = []
        frame: types.FrameType | None = _getframe()
        while frame is not None:
            code = frame.f_code
            walked.append((code.co_filename, frame.f_lineno, code.co_name))
            frame = frame.f_back
        self.stack = walked[::-1]


class OperatorWatch:
    """A context in which the operators and names of a guard raise, and are remembered.

    A student's `except` cannot hide a use: `seen` keeps the first one. The operators are seen by a
    dispatch mode, however they were reached; the names are wrapped where they stand, so that a
    `from torch.autograd import grad` after that finds the wrapper. All of it stands in the student's
    process: see `GuardedCall`, and docs/security.md for what is left.
    """

    def __init__(self, guard: Guard) -> None:
        self.seen: Seen | None = None
        self.operators = frozenset(guard.operators)
        self._depth = 0
        self._modes: list[Any] = []
        for name in guard.names:
            self._wrap(name)

    def __enter__(self) -> None:
        self._depth += 1
        if self.operators and "torch" in sys.modules:
            self._modes.append(_mode_class()(self))
            self._modes[-1].__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._depth -= 1
        if self._modes:
            self._modes.pop().__exit__(kind, error, trace)

    def is_forbidden(self, operator: str) -> bool:
        """Whether an operator, by its schema's name as `aten::glu`, is on the list."""
        return operator in self.operators

    def refuse(self, name: str) -> None:
        """Remember the first use and raise."""
        self.seen = self.seen or Seen(name)
        raise ForbiddenUse(f"{name} is not allowed here")

    def _wrap(self, dotted: str) -> None:
        owner, attribute = _owner(dotted)
        original = getattr(owner, attribute, None)
        # A class cannot be wrapped without breaking isinstance, nor an operator or a builtin without
        # breaking the scripts that hold it; these are found by their operators and in the source.
        unwrapped = (type, types.BuiltinFunctionType)
        if not callable(original) or isinstance(original, unwrapped) or "torch.ops" in dotted:
            return
        setattr(owner, attribute, self._wrapper(dotted, original))

    def _wrapper(self, dotted: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def watched(*arguments: Any, **keywords: Any) -> Any:
            if self._depth:
                self.refuse(dotted)
            return original(*arguments, **keywords)

        return watched


class GuardedCall:
    """All watches of a call at once and, where the judge asks for it, a second look that is none of theirs.

    It asks where a file names a way around the watches. Then torch's own profiler looks, from C++: in all
    threads, and also while dispatch modes are disabled. Its `operators` go to the judge, which knows what
    is forbidden; None if the profiler was ended meanwhile. This takes 0.5 ms a call.
    """

    def __init__(self, watches: list[OperatorWatch], traced: bool) -> None:
        self._watches = watches
        self._references = {
            name.partition("::")[2]: (watch, name) for watch in watches for name in watch.operators
        }
        self._profiler = _profiler() if traced and self._references else None
        self.operators: tuple[str, ...] | None = None

    def __enter__(self) -> GuardedCall:
        for watch in self._watches:
            watch.__enter__()
        if self._profiler is not None:
            begin, _ = self._profiler
            begin()
            sys.setprofile(self._look)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        if self._profiler is not None:
            sys.setprofile(None)
            _, end = self._profiler
            # The student's code may have ended it.
            with contextlib.suppress(RuntimeError):
                self.operators = tuple(sorted(end()))[:MAX_OPERATORS] or None
        for watch in reversed(self._watches):
            watch.__exit__(kind, error, trace)

    def _look(self, frame: types.FrameType, event: str, _: object) -> None:
        """Refuse an operator's reference in Python (torch._refs, torch._decomp), which dispatches others."""
        code = frame.f_code
        if event != "call" or _INNER_FILE not in code.co_filename:
            return
        # What a reference shares with another one, as hardtanh with relu6, has a mark before its name.
        for own in (code.co_name, code.co_name.removeprefix("_")):
            if own in self._references:
                watch, name = self._references[own]
                watch.refuse(name)


# Of torch's own packages that are not public.
_INNER_FILE = str(Path("torch", "_"))
# More than torch has names for one part of an exercise.
MAX_OPERATORS = 2_000
_MARK = "aten::empty"


# Looked up before any student's code runs: what it puts in the place of these names is not called.
@functools.cache
def _profiler() -> tuple[Callable[[], None], Callable[[], set[str]]]:
    """How to begin to record the names of operators in all threads, and how to end it."""
    if (torch := sys.modules.get("torch")) is None or not torch._C._autograd.kineto_available():
        return (lambda: None), lambda: {_MARK}
    from torch._C import _autograd, _profiler

    prepare, enable = _autograd._prepare_profiler, _autograd._enable_profiler
    disable, empty = _autograd._disable_profiler, torch.empty
    activities = {_profiler.ProfilerActivity.CPU}
    config = _profiler.ProfilerConfig(
        _profiler.ProfilerState.KINETO,
        report_input_shapes=False,
        profile_memory=False,
        with_stack=False,
        with_flops=False,
        with_modules=False,
        experimental_config=_profiler._ExperimentalConfig(profile_all_threads=True),
    )

    def begin() -> None:
        with _silent():
            prepare(config, activities)
            enable(config, activities)

    def end() -> set[str]:
        # A mark: a profiler that was ended meanwhile does not see it.
        empty(0)
        with _silent():
            names = {event.name() for event in disable().events()}
        return names if _MARK in names else set()

    return begin, end


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Drop what torch's profiler prints where it may not read the name of its process."""
    with contextlib.suppress(Exception):  # the student may have closed or replaced it
        sys.stderr.flush()
    stderr, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nothing)


def _owner(dotted: str) -> tuple[Any, str]:
    """The object that holds the last part of a dotted name, and this part."""
    *path, attribute = dotted.split(".")
    owner: Any = None
    for end in range(len(path), 0, -1):
        try:
            owner = importlib.import_module(".".join(path[:end]))
        except ImportError:
            continue
        for part in path[end:]:
            owner = getattr(owner, part, None)
        break
    return owner, attribute


# Making a class takes longer than a call that it watches.
@functools.cache
def _mode_class() -> Any:
    """The dispatch mode that an `OperatorWatch` enters."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __init__(self, watch: OperatorWatch) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self._watch = watch

        # Otherwise the first operator imports torch._dynamo (1 s) to tell it to keep away.
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False

        def __torch_dispatch__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = func._schema.name
            if self._watch.is_forbidden(name):
                self._watch.refuse(name)
            return func(*args, **(kwargs or {}))

    return Mode


MAX_FRAMES = 20
MAX_WALKED = 20_000


def raised(error: BaseException, own_file: str) -> Raised:
    """What a call raised; `own_file` is the student's, as tracebacks name it."""
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
        # Its own only if the student's code was not in between: that may have called back.
        in_probe=probe is not None and not any(_is_own(file, own_file) for file in files[probe:]),
        probe=_last_in_probe(error, own_file) if probe is not None else None,
    )


def _last_in_probe(error: BaseException, own_file: str) -> tuple[str, int] | None:
    """The probe and the line where an error was raised; None if a line of the student's is further in."""
    place = None
    for frame, line in itertools.islice(traceback.walk_tb(error.__traceback__), MAX_WALKED):
        file = frame.f_code.co_filename
        if file == PROBE_FILE:
            place = str(frame.f_globals.get("__name__"))[:MAX_TEXT], line
        elif _is_own(file, own_file):
            place = None
    return place


def own_frames(stack: Sequence[Line], own_file: str) -> tuple[tuple[int, str], ...]:
    """The innermost lines of a stack that are the student's own, each with its function."""
    own = [(line, name[:MAX_TEXT]) for file, line, name in stack if _is_own(file, own_file)]
    return tuple(own[-MAX_FRAMES:])


def _is_own(file: str, own_file: str) -> bool:
    """Whether it is the student's file; a probe may have imported it once more, from where it lies."""
    return file == own_file or file.endswith(f"/{own_file}")


def _stack_of(error: BaseException) -> list[Line]:
    """The lines of a traceback, outermost first; not by traceback.extract_tb, which reads files."""
    walked = itertools.islice(traceback.walk_tb(error.__traceback__), MAX_WALKED)
    return [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in walked]
