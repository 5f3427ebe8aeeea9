"""`grade doctor` shows the walls of this machine, and `--require-isolation` insists on them."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from grader.cli.options import LEVELS
from grader.sandbox.walls.survey import missing, reached, walls_of
from grader.sandbox.walls.wall import Level
from tests.grader.command import grade as grade_here

COURSE = Path(__file__).parents[1] / "courses" / "plain"


def grade(*arguments: str) -> subprocess.CompletedProcess[str]:
    return grade_here(*arguments, cwd=COURSE)


def test_each_level_needs_more_walls() -> None:
    assert tuple(level.value for level in Level) == LEVELS
    asked = [set(walls_of(level)) for level in Level]
    assert all(lower < higher for lower, higher in pairwise(asked))
    assert reached(walls_of(Level.KERNEL)) is Level.KERNEL
    assert missing(Level.LIMITS, ["rlimits"]) == ["process_group"]


def test_doctor_names_every_wall_and_the_level() -> None:
    done = grade("doctor")
    assert done.returncode == 0, done.stderr
    for wall in walls_of(Level.FULL):
        assert wall in done.stdout
    assert "Isolation reaches the level: " in done.stdout


@pytest.mark.thorough
def test_doctor_and_run_agree_on_the_level() -> None:
    level = grade("doctor").stdout.rstrip().rstrip(".").rpartition(" ")[2]
    done = grade("run", "--submission", "solutions", "--require-isolation", level)
    assert done.returncode == 0, done.stderr
    done = grade(
        "run", "--submission", "solutions", "--require-isolation", "limits", "--no-isolation"
    )
    assert done.returncode == 3
    assert "is not available here; missing: process_group, rlimits" in done.stderr
    assert "No code of the submission was run." in done.stderr


@pytest.mark.parametrize("command", ["run", "doctor"])
def test_an_unknown_level_is_a_usage_error(command: str) -> None:
    assert grade(command, "--require-isolation", "most").returncode == 2
