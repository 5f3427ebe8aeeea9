"""`grade list`, `grade explain`, `grade schema`: answers for which nothing is judged."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from grader.cli.border import Command
from grader.cli.options import (
    assignment_option,
    chosen_exercise,
    course_option,
    open_course,
    open_workspace,
)

if TYPE_CHECKING:
    from pathlib import Path


@click.command("list", cls=Command)
@course_option
@assignment_option
def list_exercises(course_path: Path, assignment: str | None) -> None:
    """Show the exercises and how far you are: state, points, minutes, difficulty.

    \b
    The state is that of your file as it is now:
      done            all of its tests passed, and nothing changed since
      edited since    it was done before you changed the file
      tests changed   it was done before the course's tests changed
      begun           something is written; `grade run` says what it is worth
      open            still as it was handed out
    or the file is missing, unreadable, or not valid Python. Points stand beside
    those of the exercise once the file was judged as it is. Below stand the
    assignments, if the course has some, and when they are due.

    \b
    Examples:
      grade list
      grade list --assignment week3
    """
    course = open_course(course_path, assignment)
    from grader.cli.terminal.console import open_console
    from grader.cli.terminal.course import show_exercises

    show_exercises(open_console(sys.stdout), open_workspace(course))


@click.command(cls=Command)
@click.argument("exercise", required=False)
@course_option
def explain(exercise: str | None, course_path: Path) -> None:
    """Show what an exercise teaches, what is checked, and where to read on; or the way through a chapter.

    Without a name it is the first exercise that is not done.

    \b
    Examples:
      grade explain glu
      grade explain autograd
    """
    course = open_course(course_path)
    workspace = open_workspace(course)
    from grader.cli.terminal.console import open_console
    from grader.cli.terminal.course import show_chapter, show_explanation

    names = {e.id for e in course.exercises}
    if exercise in course.chapters and exercise not in names:
        show_chapter(open_console(sys.stdout), workspace, exercise)
        return
    chosen = chosen_exercise(workspace, exercise)
    show_explanation(open_console(sys.stdout), workspace, chosen)


@click.command(cls=Command)
def schema() -> None:
    """Print the JSON Schema of results.

    \b
    Example:
      grade schema > result.schema.json
    """
    from grader.results import schema_json

    click.echo(schema_json(), nl=False)
