"""`grade list`, `grade hint`, `grade schema`: what the course and the grader say without judging."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from grader.cli.border import Command
from grader.cli.options import course_option, known_exercises, open_course

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["hint", "list_exercises", "schema"]


@click.command("list", cls=Command)
@course_option
def list_exercises(course_path: Path) -> None:
    """Show the exercises: points, state, minutes, difficulty.

    The state is that of your files in the course's exercises folder, seen without running them:
    untouched, edited, missing, or not valid Python. `grade run` says what they are worth.

    \b
    Example:
      grade list
    """
    from grader.console import open_console
    from grader.listings import show_exercises

    show_exercises(open_console(sys.stdout), open_course(course_path))


@click.command(cls=Command)
@click.argument("exercise")
@click.option(
    "-n",
    "--number",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Which hint: they go from gentle to nearly the answer.",
)
@course_option
def hint(exercise: str, number: int, course_path: Path) -> None:
    """Show one hint for an exercise.

    \b
    Examples:
      grade hint glu          the first, gentle one
      grade hint glu -n 2     the next one
    """
    (found,) = known_exercises(open_course(course_path), [exercise])
    if number > len(found.hints):
        raise click.UsageError(f"{found.id} has {len(found.hints)} hints, and no number {number}.")
    from grader.console import open_console
    from grader.listings import show_hint

    show_hint(open_console(sys.stdout), found, number)


@click.command(cls=Command)
def schema() -> None:
    """Print the JSON Schema of results.

    \b
    Example:
      grade schema > result.schema.json
    """
    from grader.results import schema_json

    click.echo(schema_json(), nl=False)
