"""`grade doctor`: list the walls of this machine."""

from __future__ import annotations

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.terminal.console import open_console
from grader.cli.terminal.course import show_walls
from grader.errors import ExitCode
from grader.sandbox.walls.survey import missing, reached, survey
from grader.sandbox.walls.wall import Level


@click.command(cls=Command)
@click.option(
    "--require-isolation",
    "level",
    metavar="LEVEL",
    type=click.Choice(shared.LEVELS),
    default="none",
    help="Exit with 1 below this level: " + ", ".join(shared.LEVELS) + ".",
)
def doctor(level: str) -> None:
    """List the walls between student code and this machine.

    Tries each wall, and shows the reason and a remedy if it fails. `grade run --require-isolation
    LEVEL` refuses to judge behind weaker isolation.

    \b
    Example:
      grade doctor
    """
    walls = survey()
    standing = [wall.name for wall in walls if wall.stands]
    show_walls(open_console(), walls, reached(standing))
    lacking = missing(Level(level), standing)
    click.get_current_context().exit(ExitCode.BELOW if lacking else ExitCode.FULL_MARKS)
