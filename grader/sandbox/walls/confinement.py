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

All that depends on the operating system is in a class: `System` for any Unix, `Linux`, which has all of the
walls and is the only one that tests and CI run on, and `Windows`. The tests run the others on Linux, under
the names of their systems, which shows that they need nothing of Linux's, and no more.
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
    """An operating system as isolation sees it: here any Unix, with a process group and limits of a process."""

    NAME = platform.system()
    # Those that it has, in the order in which they are raised.
    WALLS = tuple(wall for wall in table.WALLS if wall.name in ("process_group", "rlimits"))

    def why_not(self, wall: Wall) -> tuple[str, str]:  # noqa: ARG002 (the same for every wall)
        """The reason why a wall does not stand here, and a remedy."""
        return (
            f"{self.NAME} has no such thing",
            "grade strangers' code on Linux, or in a Linux virtual machine or container",
        )

    def control_group(
        self,
        memory_bytes: int,  # noqa: ARG002 (for Linux)
        processes: int,  # noqa: ARG002
    ) -> AbstractContextManager[ControlGroup | None]:
        """Bound all sandboxes together, where that is possible."""
        return contextlib.nullcontext()

    def bubblewrapped(
        self,
        argv: Sequence[str],  # noqa: ARG002 (for Linux)
        *,
        readable: Sequence[Path],  # noqa: ARG002
        environment: Mapping[str, str],  # noqa: ARG002
    ) -> list[str] | None:
        """The command inside the outermost wall, where there is one."""
        return None

    def prepare(self, readable: Sequence[Path]) -> Plan:
        """Make ready to confine children; to be called once, before any thread is started.

        Where namespaces can be made, this returns in a child of the process that called it, which
        itself waits for the child and ends as it ends. Sandboxes may read the `readable` paths,
        besides the system's libraries.
        """
        return Plan(tuple(readable))

    def fork(self, plan: Plan, limits: Limits) -> int:  # noqa: ARG002 (for Linux)
        """os.fork for a child that is going to `confine` itself to these limits.

        Where nothing can be forked it returns 0, and the process itself is the one to be confined.
        """
        return os.fork()

    def begin(self) -> None:
        """Make a process ready for its walls; raises SandboxError if it cannot be confined."""

    def end_group(self, leader: int) -> None:
        """Kill the descendants of a confined process that are still in its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)

    def print_to(self, output: socket.socket) -> None:
        """Send the output of this process to the socket, nothing held back."""
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
        print_to_descriptors()


class Linux(System):
    """All walls of the table, as far as the kernel offers them."""

    NAME = "Linux"
    WALLS = table.WALLS

    def why_not(self, wall: Wall) -> tuple[str, str]:
        """The wall's own reason."""
        return wall.why_not()

    def control_group(
        self, memory_bytes: int, processes: int
    ) -> AbstractContextManager[ControlGroup | None]:
        """A control group of Linux, where one can be made."""
        return resources.control_group(memory_bytes, processes)

    def bubblewrapped(
        self, argv: Sequence[str], *, readable: Sequence[Path], environment: Mapping[str, str]
    ) -> list[str] | None:
        """The command inside bubblewrap, where that works."""
        return bubblewrap.bubblewrapped(argv, readable=readable, environment=environment)

    def prepare(self, readable: Sequence[Path]) -> Plan:
        """Enter the fork server's namespaces, and look what the kernel offers."""
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
        """Fork, with the child as the first process of a pid namespace where it can have one."""
        # Compiled on this side of the fork, where the next sandbox finds it again.
        seccomp.compiled(limits)
        return namespaces.fork(own_pids=plan.namespaces)

    def begin(self) -> None:
        """Check that there is one thread; end with the fork server, and first where memory runs out.

        First, with all children: not the fork server, nor the judge. It shares pages with every sandbox
        and so may look larger than any of them.
        """
        threads = len(list(Path("/proc/self/task").iterdir()))
        if threads > 1:
            raise SandboxError(
                f"a sandbox of {threads} threads cannot be confined; fork it from one"
            )
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)


class Windows(System):
    """No walls at all: a sandbox there is a process of its own, and no more."""

    NAME = "Windows"
    WALLS = ()

    def fork(self, plan: Plan, limits: Limits) -> int:  # noqa: ARG002 (an interface)
        """0: nothing can be forked, so that the process itself goes on as the child."""
        return 0

    def end_group(self, leader: int) -> None:
        """Nothing: there are no groups of processes."""

    def print_to(self, output: socket.socket) -> None:
        """Have Python's own streams write to the socket."""
        sys.stdout = sys.stderr = _Printer(output)


class _Printer:
    """A text stream over a socket, which cannot stand at descriptor 1 on Windows."""

    encoding = "utf-8"

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def write(self, text: str) -> int:
        self._connection.sendall(text.encode("utf-8", "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        """Everything is sent as it is written."""


# By sys.platform, which ends in a version on some systems: freebsd14, before Python 3.14.
SYSTEM = {"linux": Linux, "win32": Windows}.get(sys.platform, System)()
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
