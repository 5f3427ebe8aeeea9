"""Limits of a process: processor time, address space, file size, descriptors, processes; and its group."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from grader.sandbox.walls.wall import Site


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
