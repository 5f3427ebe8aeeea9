"""Confinement: a sandbox permanently gives up rights before it loads the student's module.

Theory of operation. Three processes are involved. The *grader* starts the *fork server*, inside bubblewrap if
that works. The fork server calls `prepare` before it imports anything heavy or starts a thread: it enters a
user namespace of its own, becomes the first process of a pid namespace, and compiles the filters. For each
sandbox it calls `fork`, and the child calls `confine`, which raises the walls in the order of the table
(`table.WALLS`):

1.  `process_group`: a session of its own, so one kill reaches every process that the sandbox started.
2.  The namespaces (`pid_namespace` comes with the fork): mounts, IPC and network, then the user. They come
    first, since every later wall forbids making them. The user namespace comes after the others, since making
    them takes rights in the old one. The scratch folder, or all of /tmp, becomes a bounded file system of its
    own.
3.  `rlimits`: after the user namespace, since processes are counted within it.
4.  `capabilities`, `no_new_privs`: no rights are left or can be regained, as the last two walls require.
5.  `landlock`: the files. It comes before the filter, which refuses Landlock's calls.
6.  `seccomp`: the system calls. It comes last, since it refuses all of the above.

If this system does not offer a wall, it is left out, also from the list that `confine` returns. Everything here
runs unprivileged; root gives up its rights. The kernel keeps up the walls, so the sandbox need not be trusted
afterwards.

A class has everything that depends on the operating system: `System` for any Unix, `Linux` with all walls, and
`Windows`. Tests and CI run only on Linux. They also run the other classes there, under the names of their
systems. That shows only that these classes need nothing of Linux.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from grader.errors import SandboxError
from grader.sandbox.surroundings import print_to_descriptors
from grader.sandbox.walls import (
    bubblewrap,
    landlock,
    namespaces,
    resources,
    seccomp,
    syscalls,
    table,
)
from grader.sandbox.walls.private_root import outermost
from grader.sandbox.walls.resources import ControlGroup
from grader.sandbox.walls.wall import Limits, Plan, Site, Wall


class System:
    """The isolation that an operating system offers: here any Unix, with process groups and limits."""

    NAME = platform.system()
    # Its walls, in the order of raising them.
    WALLS = tuple(wall for wall in table.WALLS if wall.name in ("process_group", "rlimits"))

    def why_not(self, wall: Wall) -> tuple[str, str]:  # noqa: ARG002 (the same for every wall)
        """Return the reason why a wall is missing here, and a remedy."""
        return (
            f"{self.NAME} does not offer it",
            "grade strangers' code on Linux, or in a Linux virtual machine or container",
        )

    def control_group(
        self,
        memory_bytes: int,  # noqa: ARG002 (for Linux)
        processes: int,  # noqa: ARG002
    ) -> AbstractContextManager[ControlGroup | None]:
        """Return a context that bounds all sandboxes together, if that is possible."""
        return contextlib.nullcontext()

    def bubblewrapped(
        self,
        argv: Sequence[str],  # noqa: ARG002 (for Linux)
        *,
        readable: Sequence[Path],  # noqa: ARG002
        environment: Mapping[str, str],  # noqa: ARG002
    ) -> list[str] | None:
        """Return the command inside the outermost wall, None if there is none."""
        return None

    def prepare(self, readable: Sequence[Path]) -> Plan:
        """Prepare to confine children; call this once, before you start a thread.

        If namespaces can be made, this returns in a child of the calling process, which waits for the child and
        ends with its status. Sandboxes may read the `readable` paths and the system's libraries.
        """
        return Plan(tuple(readable))

    def fork(self, plan: Plan, limits: Limits) -> int:  # noqa: ARG002 (for Linux)
        """Fork a child that will `confine` itself to these limits.

        On a system that cannot fork, return 0: then this process itself has to be confined.
        """
        return os.fork()

    def begin(self) -> None:
        """Prepare this process for its walls; raises SandboxError if it cannot be confined."""

    def end_group(self, leader: int) -> None:
        """Kill the descendants of a confined process that are still in its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)

    def print_to(self, output: socket.socket) -> None:
        """Send the output of this process to the socket, line by line."""
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
        print_to_descriptors()


class Linux(System):
    """All walls of the table that the kernel offers."""

    NAME = "Linux"
    WALLS = table.WALLS

    def why_not(self, wall: Wall) -> tuple[str, str]:
        """Return the wall's own reason and remedy."""
        return wall.why_not()

    def control_group(
        self, memory_bytes: int, processes: int
    ) -> AbstractContextManager[ControlGroup | None]:
        """Return a context with a control group, if one can be made."""
        return resources.control_group(memory_bytes, processes)

    def bubblewrapped(
        self, argv: Sequence[str], *, readable: Sequence[Path], environment: Mapping[str, str]
    ) -> list[str] | None:
        """Return the command inside bubblewrap, None if that does not work."""
        return bubblewrap.bubblewrapped(argv, readable=readable, environment=environment)

    def prepare(self, readable: Sequence[Path]) -> Plan:
        """Enter the fork server's namespaces, and find the walls that the kernel offers."""
        paths = (*bubblewrap.system_files(), *readable)
        walls = tuple(namespaces.enter(paths))
        seccomp.compiled(Limits())
        counted = namespaces.COUNT_PROCESSES and bool(walls) and resources.counts_processes()
        return Plan(
            readable=tuple(outermost(path.resolve() for path in paths)),
            landlock_abi=landlock.abi(),
            outer_walls=walls,
            counts_processes=counted,
        )

    def fork(self, plan: Plan, limits: Limits) -> int:
        """Fork, with the child as the first process of a pid namespace if possible."""
        # Compiled before the fork, so that the next sandbox finds it in the cache.
        seccomp.compiled(limits)
        return namespaces.fork(own_pids=plan.namespaces)

    def begin(self) -> None:
        """Check that there is one thread; end with the fork server, or first if memory runs out.

        If memory runs out, the kernel must kill a sandbox with its children, not the judge or the fork server,
        which may look larger, since it shares pages with every sandbox.
        """
        threads = len(list(Path("/proc/self/task").iterdir()))
        if threads > 1:
            raise SandboxError(
                f"a sandbox with {threads} threads cannot be confined; fork it from a single thread"
            )
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)


class Windows(System):
    """No walls: a sandbox is only a process of its own."""

    NAME = "Windows"
    WALLS = ()

    def fork(self, plan: Plan, limits: Limits) -> int:  # noqa: ARG002 (an interface)
        """Return 0: without a fork, this process goes on as the child."""
        return 0

    def end_group(self, leader: int) -> None:
        """Do nothing: this system has no process groups."""

    def print_to(self, output: socket.socket) -> None:
        """Have Python's own streams write to the socket."""
        sys.stdout = sys.stderr = _Printer(output)


class _Printer:
    """A text stream over a socket, which cannot be descriptor 1 on Windows."""

    encoding = "utf-8"

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def write(self, text: str) -> int:
        self._connection.sendall(text.encode("utf-8", "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Do nothing: everything is sent when it is written."""


# By sys.platform, which ends in a version on some systems, such as freebsd14 before Python 3.14.
SYSTEM = {"linux": Linux, "win32": Windows}.get(sys.platform, System)()
prepare, fork = SYSTEM.prepare, SYSTEM.fork
# The walls that `confine` may return on any system, in its order.
WALLS = tuple(wall.name for wall in table.WALLS if wall.raise_ is not None)


def confine(plan: Plan, limits: Limits, scratch: Path) -> list[str]:
    """Raise the walls around this process; return the names of the walls that hold, as in `WALLS`.

    Args:
        scratch: an empty folder, the only one that this process may write to afterwards. It becomes
            the working directory. Its files may be invisible from outside.

    Raises:
        SandboxError: there is more than one thread; the others would stay outside of the walls.
    """
    SYSTEM.begin()
    site = Site(plan, limits, scratch)
    for wall in SYSTEM.WALLS:
        if wall.raise_ is not None and wall.raise_(site):
            site.held.append(wall.name)
    return site.held
