"""Confinement: a sandbox gives up rights, for good, before it loads the student's module.

Theory of operation. Three processes are involved. The *grader* starts the *fork server*, inside
bubblewrap where that works. The fork server calls `prepare` before it imports anything heavy or starts
a thread: it enters a user namespace of its own and becomes the first process of a pid namespace, and
compiles the filters. For each sandbox it calls `fork`, and the child calls `confine`, which raises the
walls in the order of the table (`table.WALLS`):

1.  `process_group`: a session of its own, so that one kill reaches all that the sandbox started.
2.  The namespaces (`pid_namespace` comes with the fork): own mounts, IPC and network, then the user.
    First, because every later wall forbids to make them, and the user's after the others, which take
    rights in the one that is left. The scratch folder, or all of /tmp, becomes a bounded file system
    of the sandbox's own.
3.  `rlimits`: after the user namespace, within which processes are counted.
4.  `capabilities`, `no_new_privs`: nothing is left to regain, which the last two walls presuppose.
5.  `landlock`: the files. Before the filter, which refuses Landlock's calls.
6.  `seccomp`: the calls, last, as all of the above would be refused.

A wall that this system does not offer is left out, and the list that `confine` returns says so.
Everything here runs unprivileged; root gives up its rights. The sandbox's word is not trusted
afterwards: the walls are the kernel's.

All that depends on the operating system is in its module, a `System`: `linux`, `posix` or `windows`.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from grader.sandbox.walls import linux, posix, table, windows
from grader.sandbox.walls.cgroups import ControlGroup
from grader.sandbox.walls.wall import Limits, Plan, Site, Wall


class System(Protocol):
    """All that isolation asks of an operating system."""

    NAME: str
    WALLS: tuple[Wall, ...]  # those that it has, in the order in which they are raised

    def why_not(self, wall: Wall) -> tuple[str, str]:
        """The reason why a wall does not stand here, and a remedy."""

    def control_group(
        self, memory_bytes: int, processes: int
    ) -> AbstractContextManager[ControlGroup | None]:
        """Bound all sandboxes together, where that is possible."""

    def bubblewrapped(
        self, argv: Sequence[str], *, readable: Sequence[Path], environment: Mapping[str, str]
    ) -> list[str] | None:
        """The command inside the outermost wall, where there is one."""

    def prepare(self, readable: Sequence[Path]) -> Plan:
        """Make ready to confine children; to be called once, before any thread is started.

        Where namespaces can be made, this returns in a child of the process that called it, which
        itself waits for the child and ends as it ends. Sandboxes may read the `readable` paths,
        besides the system's libraries.
        """

    def fork(self, plan: Plan, limits: Limits) -> int:
        """os.fork for a child that is going to `confine` itself to these limits.

        Where nothing can be forked it returns 0, and the process itself is the one to be confined.
        """

    def begin(self) -> None:
        """Make a process ready for its walls; raises SandboxError if it cannot be confined."""

    def end_group(self, leader: int) -> None:
        """Kill the descendants of a confined process that are still in its process group."""

    def print_to(self, output: socket.socket) -> None:
        """Send the output of this process to the socket, nothing held back."""


def _this_system() -> System:
    match sys.platform:
        case "linux":
            return linux
        case "win32":
            return windows
        case _:
            return posix


SYSTEM = _this_system()
prepare, fork = SYSTEM.prepare, SYSTEM.fork
# All that `confine` may return on any system, in its order.
WALLS = tuple(wall.name for wall in table.WALLS if wall.raise_ is not None)


def confine(plan: Plan, limits: Limits, scratch: Path) -> list[str]:
    """Raise the walls around this process; returns the names of those that held, as in `WALLS`.

    Args:
        scratch: an empty folder, the only one that this process may write to afterwards. It becomes
            the working directory. What is in it may be invisible from outside.

    Raises:
        SandboxError: there is more than one thread; the others would stay outside of the walls.
    """
    SYSTEM.begin()
    site = Site(plan, limits, scratch)
    for wall in SYSTEM.WALLS:
        if wall.raise_ is not None and wall.raise_(site):
            site.held.append(wall.name)
    return site.held
