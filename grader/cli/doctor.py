"""`grade doctor`: which walls stand on this machine, which are missing, and what to do."""

from __future__ import annotations

import sys

import click

from grader.cli.border import Command, ExitCode
from grader.cli.options import LEVELS
from grader.cli.terminal.console import open_console
from grader.cli.terminal.course import show_walls
from grader.sandbox.walls.survey import missing, reached, survey
from grader.sandbox.walls.wall import Level


@click.command(cls=Command)
@click.option(
    "--require-isolation",
    "level",
    metavar="LEVEL",
    type=click.Choice(LEVELS),
    default="none",
    help="Exit with 1 below this level: " + ", ".join(LEVELS) + ".",
)
def doctor(level: str) -> None:
    """Say which walls stand between student code and this machine.

    Each wall is raised for a trial, around nothing. For one that does not stand you read why, and
    what to do about it. `grade run --require-isolation LEVEL` refuses to judge behind less.

    \b
    Example:
      grade doctor
    """

    walls = survey()
    standing = [wall.name for wall in walls if wall.stands]
    show_walls(open_console(sys.stdout), walls, reached(standing))
    lacking = missing(Level(level), standing)
    click.get_current_context().exit(ExitCode.BELOW if lacking else ExitCode.FULL_MARKS)
