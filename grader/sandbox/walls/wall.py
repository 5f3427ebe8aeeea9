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
        cpu_seconds: processor time of each of its processes, all threads together.
        memory_bytes: address space of each process, on top of what it shares with the fork server.
        file_bytes: size of one file.
        scratch_bytes: size of its folder, where that can be a file system of its own.
        open_files: descriptors at a time.
        threads: threads and processes at a time, where that can be counted.
        processes: whether it may start processes.
        loopback: whether it may talk TCP with itself.
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
    """Facts that a fork server finds out once and every sandbox uses.

    Attributes:
        readable: paths that the sandboxes may read.
        landlock_abi: the kernel's version of Landlock, 0 for none.
        outer_walls: those that the fork server is behind itself.
        counts_processes: whether the limit of processes holds, and for each sandbox by itself.
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
    """The walls that have to stand between student code and the machine; each includes those before it."""

    NONE = "none"
    LIMITS = "limits"
    KERNEL = "kernel"
    NAMESPACES = "namespaces"
    FULL = "full"


def refused() -> tuple[str, str]:
    """The reason for a wall that every system of the kind should offer."""
    return "the system refused it", ""


class Wall(msgspec.Struct, frozen=True):
    """One wall.

    Attributes:
        name: its name in results and messages.
        meaning: its effect on student code.
        level: the lowest level that asks for it; None if no level does.
        raise_: raises it around this process and returns whether it holds; None for a wall that is
            built around the fork server from outside. It returns False where a system may refuse it:
            an OSError ends the sandbox.
        why_not: the reason why it does not stand here, and a remedy (empty if there is none).
    """

    name: str
    meaning: str
    level: Level | None
    raise_: Callable[[Site], bool] | None = None
    why_not: Callable[[], tuple[str, str]] = refused
