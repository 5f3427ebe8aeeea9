"""What a sandbox may use up: processor time, address space, file size, descriptors, processes."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path


def address_space() -> int:
    """The bytes of address space in use now; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def counts_processes() -> bool:
    """Whether the limit of processes holds for us; it does not for root, whatever it is called here."""
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


def limit(
    *,
    cpu_seconds: int,
    memory_bytes: int,
    file_bytes: int,
    open_files: int,
    processes: int | None,
) -> bool:
    """Set the limits of this process and its descendants; False where there is no such thing.

    Args:
        cpu_seconds: of all threads of one process together.
        memory_bytes: on top of what is mapped now: torch alone reserves gigabytes that it never
            touches, so that a fixed limit would say little about what the student's code took.
        file_bytes: of one file.
        open_files: descriptors.
        processes: threads and processes; None where the system would count those of the same
            user outside of the sandbox as well.
    """
    if importlib.util.find_spec("resource") is None:
        return False
    wanted = {
        "RLIMIT_FSIZE": file_bytes,
        "RLIMIT_NOFILE": open_files,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": 256,
        "RLIMIT_RTPRIO": 0,
        "RLIMIT_NICE": 0,
    }
    # Where it is not known how much is mapped, a limit would hit Python itself.
    if mapped := address_space():
        wanted["RLIMIT_AS"] = mapped + memory_bytes
    if processes is not None:
        wanted["RLIMIT_NPROC"] = processes
    held = [_lower(name, value, value) for name, value in wanted.items()]
    # First a signal that says why, which can be caught, and which the first process of a pid
    # namespace does not even get; then the end.
    return _lower("RLIMIT_CPU", cpu_seconds, cpu_seconds + 1) and all(held)


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
