"""`grade package`: an autograder for a platform."""

from __future__ import annotations

import os
from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.pack import seed_of


@click.command(cls=Command)
@click.argument("platform", type=click.Choice(["gradescope"]))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=shared.FILE,
    help="The zip to write, for you to upload.",
)
@shared.course_option
@shared.assignment_option
@click.option(
    "--exercise",
    "exercises",
    metavar="NAME",
    multiple=True,
    help="Grade only this exercise; may be repeated. By default all.",
)
@click.option(
    "--require-isolation",
    metavar="LEVEL",
    type=click.Choice(shared.LEVELS),
    default="kernel",
    show_default=True,
    help="The weakest isolation to grade behind: " + ", ".join(shared.LEVELS) + ". See docs/ci.md.",
)
@click.option(
    "--pip-option",
    "pip_options",
    metavar="OPTION",
    multiple=True,
    help="An option for pip install on the platform, such as an index with torch for CPUs.",
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
    """Make an autograder for a platform, with hidden suites.

    The zip holds this grader, the versions of its dependencies, and the course without its
    solutions and wrong answers. It knows how each wrong answer fails, so that mistakes have names.
    With --assignment, it judges with the assignment's seed. The stubs and the solutions are graded
    before it is written. Keep it as secret as the hidden suites.

    \b
    Examples:
      grade package gradescope -o autograder.zip
      grade package gradescope -o week3.zip --assignment week3
      grade package gradescope -o glu.zip --exercise glu
    """
    course = shared.open_course(course_path, assignment)
    course = course.only(shared.known_exercises(course, exercises))
    from grader.authoring.gradescope_package import GradescopeOptions, write_gradescope
    from grader.cli.terminal.progress import ProgressBar

    options = GradescopeOptions(
        require_isolation=require_isolation,
        seed=seed_of(course),
        pip_options=pip_options,
    )
    with ProgressBar("exercises") as bar:
        bar.start("Observing wrong answers", len(course.exercises))
        names = write_gradescope(
            output, course, options, jobs=os.cpu_count() or 1, done=lambda _: bar.advance()
        )
    click.echo(f"Wrote {output} ({output.stat().st_size / 1e6:.1f} MB): {', '.join(names)}.")
    click.echo("Upload it as the autograder of the assignment, and test it with a solution.")
