"""Limits on resources: for a process and its group, and for all sandboxes together, in a control group.

Limits of a process hold for it only. A control group around the fork server bounds the sum over an exercise
with many processes, even for root. Making one requires root, or a delegated folder of the hierarchy. Without
it, only the sum is unbounded. The grader makes the group before it starts the fork server, since bubblewrap
hides the hierarchy.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from grader.sandbox.walls.wall import Site

# --- a process and its group ----------------------------------------------------------------------


def address_space() -> int:
    """Return the bytes of address space in use now, 0 if unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def counts_processes() -> bool:
    """Return whether the limit on processes holds for this user; for root it does not, even in a namespace."""
    import resource

    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        try:
            os._exit(os.fork() and 1)
        except OSError:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 2


def lead_group(site: Site) -> bool:  # noqa: ARG001 (an interface)
    """Start a session and a process group, so that one kill reaches all descendants."""
    with contextlib.suppress(PermissionError):  # it leads a group already
        os.setsid()
    return True


def limit(site: Site) -> bool:
    """Set the limits of this process and its descendants; processor time includes all threads."""
    limits = site.limits
    values = {
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": 256,
        "RLIMIT_RTPRIO": 0,
        "RLIMIT_NICE": 0,
    }
    # Beyond the memory mapped now, since torch reserves gigabytes that it never uses. If that is unknown, a
    # limit could hit Python itself.
    if mapped := address_space():
        values["RLIMIT_AS"] = mapped + limits.memory_bytes
    # Otherwise, the system would also count the user's processes outside of the sandbox.
    if site.plan.counts_processes and "user_namespace" in site.held:
        values["RLIMIT_NPROC"] = limits.threads
    lowered = [_lower(name, value, value) for name, value in values.items()]
    # The soft limit sends a signal that names the cause. It can be caught, and the first process of a pid
    # namespace does not get it; so the hard limit kills.
    return _lower("RLIMIT_CPU", limits.cpu_seconds, limits.cpu_seconds + 1) and all(lowered)


def _lower(name: str, soft: int, hard: int) -> bool:
    """Lower one limit, never above the current hard limit; return False if that is refused."""
    import resource

    number = getattr(resource, name, None)
    if number is None:
        return True
    _, highest = resource.getrlimit(number)
    if highest != resource.RLIM_INFINITY:
        soft, hard = min(soft, highest), min(hard, highest)
    try:
        resource.setrlimit(number, (soft, hard))
    except (OSError, ValueError):
        return False
    return True


# --- all sandboxes together -----------------------------------------------------------------------

_HIERARCHY = Path("/sys/fs/cgroup")
_numbers = itertools.count()


class ControlGroup(msgspec.Struct, frozen=True):
    """The folders of one group: a single folder, or one for each controller in the old hierarchy."""

    folders: tuple[Path, ...]

    def around(self, command: Sequence[str]) -> list[str]:
        """Return a command that runs this one inside the group.

        A shell enters the group, since a process with threads must not run its own code after a fork.
        """
        enter = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo 0 > "$1/cgroup.procs" || exit 1; '
        script = f'{enter} shift; n=$((n - 1)); done; exec "$@"'
        folders = [str(folder) for folder in self.folders]
        return ["/bin/sh", "-c", script, "sh", str(len(folders)), *folders, *command]


@contextlib.contextmanager
def control_group(memory_bytes: int, processes: int) -> Iterator[ControlGroup | None]:
    """Make a group with these limits for the context, None if that is not possible.

    Processes that are left in it at the end are killed.
    """
    made: list[Path] = []
    try:
        group = _make(memory_bytes, processes, made)
        yield group
    finally:
        for folder in made:
            _remove(folder)


def why_no_group() -> tuple[str, str]:
    """Return the reason for the missing group, and a remedy."""
    return (
        "making one requires root, or a delegated group",
        "run the grader by: systemd-run --user --scope -p Delegate=yes grade …",
    )


def _make(memory_bytes: int, processes: int, made: list[Path]) -> ControlGroup | None:
    """Make the group in the new hierarchy or in the old one; `made` gets its folders one by one."""
    name = f"grade-{os.getpid()}-{next(_numbers)}"
    try:
        if (_HIERARCHY / "cgroup.controllers").exists():
            folder = _made(_with_controllers(_own(_HIERARCHY, "0::")) / name, made)
            limits = {"memory.max": memory_bytes, "memory.swap.max": 0, "pids.max": processes}
            _limit(folder, limits)
        else:
            folder = _made(_own(_HIERARCHY / "memory", ":memory:") / name, made)
            _limit(folder, {"memory.limit_in_bytes": memory_bytes})
            folder = _made(_own(_HIERARCHY / "pids", ":pids:") / name, made)
            _limit(folder, {"pids.max": processes})
    except OSError:
        return None
    return ControlGroup(tuple(made))


def _own(hierarchy: Path, controller: str) -> Path:
    """Return the folder of this process's group."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.split(":", 2)[2] for line in lines if controller in line), "/")
    return hierarchy / own.lstrip("/")


def _with_controllers(folder: Path) -> Path:
    """Return the nearest parent group that counts memory and processes for the groups in it.

    Our own group cannot serve: a group that contains processes may not have counting groups in it.
    """
    while folder != _HIERARCHY:
        counted = (folder / "cgroup.subtree_control").read_text().split()
        if {"memory", "pids"} <= set(counted):
            break
        folder = folder.parent
    return folder


def _made(folder: Path, made: list[Path]) -> Path:
    _remove_stale(folder.parent)
    folder.mkdir()
    made.append(folder)
    return folder


def _limit(folder: Path, limits: dict[str, int]) -> None:
    for file, value in limits.items():
        # Without swap, the file does not exist.
        with contextlib.suppress(FileNotFoundError) if "swap" in file else contextlib.nullcontext():
            (folder / file).write_text(str(value))


def _remove(folder: Path) -> None:
    """Kill the processes in a group and remove it, within a second."""
    with contextlib.suppress(OSError):
        (folder / "cgroup.kill").write_text("1")
    # A killed process is in the group until its parent has waited for it.
    for _ in range(50):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)
        else:
            return


def _remove_stale(siblings: Path) -> None:
    """Remove the empty groups of graders that were killed."""
    for folder in siblings.glob("grade-*"):
        owner = folder.name.split("-")[1]
        if not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()
