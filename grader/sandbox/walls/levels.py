"""Levels of isolation by name, for those who would rather not grade than grade behind less."""

from __future__ import annotations

import enum
from collections.abc import Collection

from grader.sandbox.walls.confinement import WALLS

__all__ = ["Level", "missing", "reached", "walls_of"]


class Level(enum.Enum):
    """How much has to stand between student code and the machine."""

    NONE = "none"
    LIMITS = "limits"
    KERNEL = "kernel"
    NAMESPACES = "namespaces"
    FULL = "full"


_LIMITS = ("process_group", "rlimits")
_KERNEL = (*_LIMITS, "capabilities", "no_new_privs", "landlock", "seccomp")


def walls_of(level: Level) -> tuple[str, ...]:
    """The walls that a level asks for; each one asks for those of the one before it."""
    match level:
        case Level.NONE:
            return ()
        case Level.LIMITS:
            return _LIMITS
        case Level.KERNEL:
            return _KERNEL
        case Level.NAMESPACES:
            # Not process_limit: for root it takes Linux 6.14.
            return tuple(wall for wall in WALLS if wall != "process_limit")
        case Level.FULL:
            return ("bubblewrap", *WALLS)


def missing(level: Level, standing: Collection[str]) -> list[str]:
    """The walls that a level asks for and that do not stand."""
    return [wall for wall in walls_of(level) if wall not in standing]


def reached(standing: Collection[str]) -> Level:
    """The highest level of which every wall stands."""
    return [level for level in Level if not missing(level, standing)][-1]
