"""The Python stack that a dying sandbox prints (`inside.endings`), taken out of its output by `client`."""

from __future__ import annotations

import re
from collections.abc import Iterable

# As Python's faulthandler writes it, innermost call first; what stands around it is about the interpreter.
_STACK = re.compile(
    rb"(?:Fatal Python error: [^\n]{0,80}\n\n)?"
    rb"(?:Stack|(?:Current thread|Thread) [^\n]{0,80}) \(most recent call first\):\n"
    rb"((?:  File [^\n]*\n|  \.\.\.\n)+)"
    # A process that is stopped while it prints leaves a line behind that has no end.
    rb"(?:  ?(?:F[^\n]*)?\Z)?"
    rb"(?:\nExtension modules: [^\n]*\n?)?"
)
ABORTED = b"Fatal Python error: Aborted"
_FRAME = re.compile(rb'  File "([^"\n]*)", line (\d{1,7}) in ([^\n]{1,200})')


def split_stack(printed: bytes) -> tuple[bytes, bytes]:
    """What was printed without the last stack in it, and that stack; it may begin with why it was printed.

    The first process of a namespace outlives its abort, and then crashes: that is one end, and its cause the
    first stack's.
    """
    stacks = list(_STACK.finditer(printed))
    if not stacks:
        return printed, b""
    begin, end = stacks[-1].span()
    for earlier in reversed(stacks[:-1]):
        if printed[earlier.end() : begin].strip() or not earlier[0].startswith(ABORTED):
            break
        begin = earlier.start()
    return printed[:begin] + printed[end:], printed[begin:end]


def without_stack(printed: bytes, stack: bytes) -> bytes:
    """The output without this stack, whose last bytes may have been cut off."""
    before, whole = split_stack(printed)
    if whole:
        return before
    cut = next((n for n in range(len(stack), 0, -1) if printed.endswith(stack[:n])), 0)
    return printed[: len(printed) - cut]


def own_frames(stack: bytes, file: str) -> Iterable[tuple[int, str]]:
    """Line and function of the frames in this file, innermost first."""
    for name, line, function in _FRAME.findall(stack):
        if name.decode("ascii", "replace") == file:
            yield int(line), function.decode("ascii", "replace")
