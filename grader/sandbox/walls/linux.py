"""Isolation on Linux: all walls of the table, and the only system that tests and CI run on."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Sequence
from pathlib import Path

from grader.errors import SandboxError
from grader.sandbox.walls import (
    bubblewrap,
    cgroups,
    landlock,
    namespaces,
    posix,
    rlimits,
    seccomp,
    syscalls,
    table,
)
from grader.sandbox.walls.private_root import outermost
from grader.sandbox.walls.wall import Limits, Plan, Wall

NAME = "Linux"
WALLS = table.WALLS

control_group = cgroups.control_group
bubblewrapped = bubblewrap.bubblewrapped
end_group = posix.end_group
print_to = posix.print_to

_PR_SET_PDEATHSIG = 1


def why_not(wall: Wall) -> tuple[str, str]:
    """The wall's own reason."""
    return wall.why_not()


def prepare(readable: Sequence[Path]) -> Plan:
    """Enter the fork server's namespaces, and look what the kernel offers."""
    paths = (*bubblewrap.system_files(), *readable)
    walls = tuple(namespaces.enter(paths))
    seccomp.compiled(Limits())
    return Plan(
        readable=tuple(outermost(path.resolve() for path in paths)),
        landlock_abi=landlock.abi(),
        outer_walls=walls,
        counts_processes=namespaces.COUNT_PROCESSES and bool(walls) and rlimits.counts_processes(),
    )


def fork(plan: Plan, limits: Limits) -> int:
    """Fork, with the child as the first process of a pid namespace where it can have one."""
    # Compiled on this side of the fork, where the next sandbox finds it again.
    seccomp.compiled(limits)
    return namespaces.fork(own_pids=plan.namespaces)


def begin() -> None:
    """Check that there is one thread; end with the fork server, and first where memory runs out.

    First, with all children: not the fork server, nor the judge. It shares pages with every sandbox and
    so may look larger than any of them.
    """
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        raise SandboxError(f"a sandbox of {threads} threads cannot be confined; fork it from one")
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    syscalls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
