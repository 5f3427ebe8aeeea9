"""Structs of the walls: a wall, the process that raises it, and the levels that ask for it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path

import msgspec

MEBIBYTE = 1024 * 1024


class Limits(msgspec.Struct, frozen=True):
    """Resources that one sandbox may use.

    Attributes:
        cpu_seconds: processor time of each of its processes, for all threads together.
        memory_bytes: address space of each process, beyond that of the fork server.
        file_bytes: size of a file.
        scratch_bytes: size of its folder, if that can be a file system of its own.
        open_files: number of descriptors at a time.
        threads: number of threads and processes at a time, if they can be counted.
        processes: whether it may start processes.
        loopback: whether it may use TCP within itself.
    """

    cpu_seconds: int = 60
    memory_bytes: int = 2048 * MEBIBYTE
    file_bytes: int = 64 * MEBIBYTE
    scratch_bytes: int = 128 * MEBIBYTE
    open_files: int = 256
    threads: int = 256
    processes: bool = False
    loopback: bool = False


class Plan(msgspec.Struct, frozen=True):
    """Facts that the fork server determines once and every sandbox uses.

    Attributes:
        readable: paths that the sandboxes may read.
        landlock_abi: the kernel's version of Landlock, 0 for none.
        outer_walls: the walls around the fork server itself.
        counts_processes: whether the limit on processes holds, separately for each sandbox.
    """

    readable: tuple[Path, ...]
    landlock_abi: int = 0
    outer_walls: tuple[str, ...] = ()
    counts_processes: bool = False

    @property
    def namespaces(self) -> bool:
        """Whether children may have namespaces of their own."""
        return "pid_namespace" in self.outer_walls


class Site(msgspec.Struct):
    """A process that raises walls around itself, and the walls that hold so far."""

    plan: Plan
    limits: Limits
    scratch: Path
    held: list[str] = []


class Level(enum.Enum):
    """A set of walls between student code and the machine; each level includes those before it."""

    NONE = "none"
    LIMITS = "limits"
    KERNEL = "kernel"
    NAMESPACES = "namespaces"
    FULL = "full"


def refused() -> tuple[str, str]:
    """Return the reason for a missing wall that every such system should offer."""
    return "the system refused it", ""


class Wall(msgspec.Struct, frozen=True):
    """One wall.

    Attributes:
        name: its name in results and messages.
        meaning: its effect on student code.
        level: the lowest level that requires it; None if no level does.
        raise_: a function that raises it around this process and returns whether it holds; None for a wall
            around the fork server. If a system may refuse the wall, the function must return False, since
            an OSError ends the sandbox.
        why_not: a function that returns the reason why it is missing here, and a remedy (maybe empty).
    """

    name: str
    meaning: str
    level: Level | None
    raise_: Callable[[Site], bool] | None = None
    why_not: Callable[[], tuple[str, str]] = refused
