"""Isolation on Windows: none; a sandbox there is a process of its own, and no more.

Untested there: CI runs on Linux alone. Its tests run this module under that system's name, without what
Python lacks there, which shows that it needs nothing of Unix's, and no more.
"""

from __future__ import annotations

import socket
import sys

from grader.sandbox.walls import posix
from grader.sandbox.walls.wall import Limits, Plan, Wall

NAME = "Windows"
WALLS: tuple[Wall, ...] = ()

why_not = posix.why_not
control_group = posix.control_group
bubblewrapped = posix.bubblewrapped
prepare = posix.prepare
begin = posix.begin


def fork(plan: Plan, limits: Limits) -> int:  # noqa: ARG001 (an interface)
    """0: nothing can be forked, so that the process itself goes on as the child."""
    return 0


def end_group(leader: int) -> None:
    """Nothing: there are no groups of processes."""


class _Printer:
    """A text stream over a socket, which cannot stand at descriptor 1 here."""

    encoding = "utf-8"

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def write(self, text: str) -> int:
        self._connection.sendall(text.encode("utf-8", "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Everything is sent as it is written."""


def print_to(output: socket.socket) -> None:
    """Have Python's own streams write to the socket."""
    sys.stdout = sys.stderr = _Printer(output)
