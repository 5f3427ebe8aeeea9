"""Isolation on other Unix systems, macOS among them: a process group, and the limits of a process.

Untested there: CI runs on Linux alone. Its tests run this module under another system's name, which shows
that it needs nothing of Linux's, and no more.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from grader.sandbox.surroundings import print_to_descriptors
from grader.sandbox.walls import table
from grader.sandbox.walls.cgroups import ControlGroup
from grader.sandbox.walls.wall import Limits, Plan, Wall

NAME = platform.system()
WALLS = tuple(wall for wall in table.WALLS if wall.name in ("process_group", "rlimits"))


def why_not(wall: Wall) -> tuple[str, str]:  # noqa: ARG001 (the same for every wall)
    """The reason for each wall that only Linux has."""
    return (
        f"{NAME} has no such thing",
        "grade strangers' code on Linux, or in a Linux virtual machine or container",
    )


def control_group(
    memory_bytes: int,  # noqa: ARG001 (an interface)
    processes: int,  # noqa: ARG001
) -> AbstractContextManager[ControlGroup | None]:
    """No group: only Linux has them."""
    return contextlib.nullcontext()


def bubblewrapped(
    argv: Sequence[str],  # noqa: ARG001 (an interface)
    *,
    readable: Sequence[Path],  # noqa: ARG001
    environment: Mapping[str, str],  # noqa: ARG001
) -> list[str] | None:
    """No command: bubblewrap is Linux's."""
    return None


def prepare(readable: Sequence[Path]) -> Plan:
    """A plan with nothing to find out."""
    return Plan(tuple(readable))


def fork(plan: Plan, limits: Limits) -> int:  # noqa: ARG001 (an interface)
    """os.fork."""
    return os.fork()


def begin() -> None:
    """Nothing: no wall here asks for more."""


def end_group(leader: int) -> None:
    """Kill the processes of the group that a sandbox leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def print_to(output: socket.socket) -> None:
    """Put the socket at the descriptors of the standard streams."""
    for descriptor in (1, 2):
        os.dup2(output.fileno(), descriptor)
    print_to_descriptors()
