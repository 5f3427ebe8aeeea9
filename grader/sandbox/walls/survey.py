"""Survey of the walls on this machine: raise them, and find remedies for missing ones."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

import msgspec

from grader.sandbox.surroundings import sandbox_environment
from grader.sandbox.walls import table
from grader.sandbox.walls.bubblewrap import python_environment
from grader.sandbox.walls.confinement import SYSTEM
from grader.sandbox.walls.wall import Level

_TRIAL_SECONDS = 60
# In a process of its own, since walls cannot be removed again; it asks for everything.
_TRIAL = """
import json, os, pathlib, sys
from grader.sandbox.walls import confinement
from grader.sandbox.walls.bubblewrap import python_environment
from grader.sandbox.walls.wall import Limits
plan = confinement.prepare(python_environment())
limits = Limits(processes=True, loopback=True)
scratch = pathlib.Path(sys.argv[1])
# With a private root, it does not exist yet.
scratch.mkdir(parents=True, exist_ok=True)
child = confinement.fork(plan, limits)
if child == 0:
    walls = confinement.confine(plan, limits, scratch)
    os.write(1, json.dumps(walls).encode())
    os._exit(0)
os.waitpid(child, 0)
"""


class WallSurvey(msgspec.Struct, frozen=True):
    """One wall on this machine.

    Attributes:
        name: its name in the table.
        stands: whether it holds here.
        meaning: its effect on student code.
        reason: the reason why it is missing; empty if it holds.
        remedy: a way to get it; empty if there is none.
    """

    name: str
    stands: bool
    meaning: str
    reason: str = ""
    remedy: str = ""


def survey() -> list[WallSurvey]:
    """Try every wall on this machine, and return the results, outermost first; takes about a second."""
    standing = _trial()
    return [
        WallSurvey(wall.name, True, wall.meaning)
        if wall.name in standing
        else WallSurvey(wall.name, False, wall.meaning, *SYSTEM.why_not(wall))
        for wall in table.WALLS
    ]


def _trial() -> list[str]:
    """Confine a process, and return the names of its walls."""
    # With the grader's own folder, in case the grader is not installed but runs from its checkout.
    environment = sandbox_environment() | {"PYTHONPATH": str(Path(__file__).parents[3])}
    with tempfile.TemporaryDirectory() as scratch, SYSTEM.control_group(2**30, 100) as group:
        command = [sys.executable, "-P", "-c", _TRIAL, scratch]
        readable = python_environment()
        wrapped = SYSTEM.bubblewrapped(command, readable=readable, environment=environment)
        try:
            done = subprocess.run(
                wrapped or command,
                env=environment,
                capture_output=True,
                timeout=_TRIAL_SECONDS,
                check=True,
            )
            walls: list[str] = json.loads(done.stdout)
        except (OSError, subprocess.SubprocessError, ValueError):
            return []
    around = {"control_group": group, "bubblewrap": wrapped}
    return [name for name, wall in around.items() if wall is not None] + walls


def walls_of(level: Level) -> tuple[str, ...]:
    """Return the walls that a level requires, including those of lower levels."""
    asking = list(Level)[: list(Level).index(level) + 1]
    return tuple(wall.name for wall in table.WALLS if wall.level in asking)


def missing(level: Level, standing: Collection[str]) -> list[str]:
    """Return the walls that a level requires and that are missing."""
    return [wall for wall in walls_of(level) if wall not in standing]


def reached(standing: Collection[str]) -> Level:
    """Return the highest level whose walls all hold."""
    return [level for level in Level if not missing(level, standing)][-1]
