"""What is said of an error in the student's code: type, text, and the lines of the student's own file."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Sequence

from grader.sandbox.inside.guard import Line
from grader.sandbox.wire.messages import PROBE_FILE, Raised
from grader.sandbox.wire.values import MAX_TEXT

__all__ = ["own_frames", "raised"]

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
        in_probe=probe is not None and own_file not in files[probe:],
    )


def own_frames(stack: Sequence[Line], own_file: str) -> tuple[tuple[int, str], ...]:
    """The innermost lines of a stack that are the student's own, each with its function."""
    own = [(line, name[:MAX_TEXT]) for file, line, name in stack if file == own_file]
    return tuple(own[-MAX_FRAMES:])


def _stack_of(error: BaseException) -> list[Line]:
    """The lines of a traceback, outermost first; not by traceback.extract_tb, which reads files."""
    walked = itertools.islice(traceback.walk_tb(error.__traceback__), MAX_WALKED)
    return [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in walked]
