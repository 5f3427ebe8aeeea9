"""Limits of resources: of a process and its group, and of all sandboxes together, in a control group.

The limits of a process are its own; only a control group around the fork server bounds the sum over an
exercise with many processes, for root too. Making one takes root, or a folder of the hierarchy that was handed
over; where there is none, nothing is lost but this sum. The grader makes it before it starts the fork
server, as bubblewrap hides the hierarchy from processes inside.
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
    """The bytes of address space in use now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def counts_processes() -> bool:
    """Whether the limit of processes holds for this user; for root it does not, in a namespace either."""
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


def lead_group(site: Site) -> bool:  # noqa: ARG001 (as every wall is raised)
    """Start a session and a process group, so that one kill reaches all descendants."""
    with contextlib.suppress(PermissionError):  # leads a group already
        os.setsid()
    return True


def limit(site: Site) -> bool:
    """Set the limits of this process and its descendants; processor time is that of all threads."""
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
    # On top of what is mapped now: torch alone reserves gigabytes that it never touches. Where it is not
    # known how much that is, a limit would hit Python itself.
    if mapped := address_space():
        values["RLIMIT_AS"] = mapped + limits.memory_bytes
    # Elsewhere the system would count those of the same user outside of the sandbox as well.
    if site.plan.counts_processes and "user_namespace" in site.held:
        values["RLIMIT_NPROC"] = limits.threads
    lowered = [_lower(name, value, value) for name, value in values.items()]
    # First a signal that says why, which can be caught, and which the first process of a pid
    # namespace does not even get; then the end.
    return _lower("RLIMIT_CPU", limits.cpu_seconds, limits.cpu_seconds + 1) and all(lowered)


def _lower(name: str, soft: int, hard: int) -> bool:
    """Lower one limit, never above the hard limit that there is; False where that is refused."""
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
    """The folders of one group: a single one, or one for each controller in the old hierarchy."""

    folders: tuple[Path, ...]

    def around(self, command: Sequence[str]) -> list[str]:
        """The command that starts this one inside the group, with all that it starts.

        By a shell, since a process that has threads must not run code of its own after a fork.
        """
        enter = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo 0 > "$1/cgroup.procs" || exit 1; '
        script = f'{enter} shift; n=$((n - 1)); done; exec "$@"'
        folders = [str(folder) for folder in self.folders]
        return ["/bin/sh", "-c", script, "sh", str(len(folders)), *folders, *command]


@contextlib.contextmanager
def control_group(memory_bytes: int, processes: int) -> Iterator[ControlGroup | None]:
    """A group with these limits for as long as the context lasts; None where none can be made.

    A process in it that has not ended when the context does is killed.
    """
    made: list[Path] = []
    try:
        group = _make(memory_bytes, processes, made)
        yield group
    finally:
        for folder in made:
            _remove(folder)


def why_no_group() -> tuple[str, str]:
    """The reason why there is no group here, and a remedy."""
    return (
        "making one takes root, or a group that was handed over",
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
    """The folder of the group that this process is in."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.split(":", 2)[2] for line in lines if controller in line), "/")
    return hierarchy / own.lstrip("/")


def _with_controllers(folder: Path) -> Path:
    """The nearest group upwards that counts memory and processes for the groups in it.

    Not simply our own: a group with processes in it may have none below it that counts.
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
        # No swap, no file for it.
        with contextlib.suppress(FileNotFoundError) if "swap" in file else contextlib.nullcontext():
            (folder / file).write_text(str(value))


def _remove(folder: Path) -> None:
    """Kill what is left in a group and remove it, within a second."""
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
