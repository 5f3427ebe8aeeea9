"""`grade package`: an autograder for a platform that grades by itself."""

from __future__ import annotations

import os
from pathlib import Path

import click

from grader.authoring.gradescope_package import GradescopeOptions, write_gradescope
from grader.cli.border import Command
from grader.cli.options import (
    LEVELS,
    assignment_option,
    course_option,
    known_exercises,
    open_course,
)
from grader.cli.terminal.progress import ProgressBar


@click.command(cls=Command)
@click.argument("platform", type=click.Choice(["gradescope"]))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The zip to write, which you upload.",
)
@course_option
@assignment_option
@click.option(
    "--exercise",
    "exercises",
    metavar="NAME",
    multiple=True,
    help="Grade this exercise alone; may be given several times. By default all of them.",
)
@click.option(
    "--require-isolation",
    metavar="LEVEL",
    type=click.Choice(LEVELS),
    default="kernel",
    show_default=True,
    help="Grade nothing behind less there: " + ", ".join(LEVELS) + ". See docs/ci.md.",
)
@click.option(
    "--pip-option",
    "pip_options",
    metavar="OPTION",
    multiple=True,
    help="An option for pip install there, such as where to find torch for CPUs alone.",
)
def package(
    platform: str,  # noqa: ARG001  # there is one
    output: Path,
    course_path: Path,
    assignment: str | None,
    exercises: tuple[str, ...],
    require_isolation: str,
    pip_options: tuple[str, ...],
) -> None:
    """Make an autograder that a platform runs itself, hidden suites included.

    The zip holds this grader, the versions of what it needs, and the course without its
    solutions and wrong answers; how each wrong answer fails goes with it, so that mistakes have names there.
    With --assignment it judges with the assignment's seed. Keep it as you keep the hidden suites.

    \b
    Examples:
      grade package gradescope -o autograder.zip
      grade package gradescope -o week3.zip --assignment week3
      grade package gradescope -o glu.zip --exercise glu
    """
    course = open_course(course_path, assignment)
    course = course.only(known_exercises(course, exercises))

    options = GradescopeOptions(
        require_isolation=require_isolation,
        seed=(course.assignment.seed or 0) if course.assignment is not None else 0,
        pip_options=pip_options,
    )
    with ProgressBar("exercises") as bar:
        bar.start("Observing wrong answers", len(course.exercises))
        names = write_gradescope(
            output, course, options, jobs=os.cpu_count() or 1, done=lambda _: bar.advance()
        )
    click.echo(f"Wrote {output} ({output.stat().st_size / 1e6:.1f} MB): {', '.join(names)}.")
    click.echo("Upload it as the autograder of the assignment, and test it with a solution.")
