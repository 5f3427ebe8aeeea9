"""`grade run`: judge a submission, show the result, write it as JSON."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from grader.cli.border import Command, ExitCode
from grader.cli.options import (
    LEVELS,
    course_option,
    exercises_argument,
    known_exercises,
    open_course,
)
from grader.errors import GraderError

if TYPE_CHECKING:
    from grader.course import Course
    from grader.results import Result

__all__ = ["run"]

_STDOUT = Path("-")


def _writable(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Refuse before the grading, not after it, a file that cannot be made."""
    if path is not None and path != _STDOUT and not path.absolute().parent.is_dir():
        raise click.BadParameter(f"There is no folder {path.parent}.", context, parameter)
    return path


@click.command(cls=Command)
@exercises_argument
@course_option
@click.option(
    "--submission",
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="A folder, or the file of one exercise. By default the course's own exercises folder.",
)
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
    callback=_writable,
    help="Write the result as JSON too; '-' writes it to stdout, and nothing else.",
)
@click.option(
    "--suite",
    type=click.Choice(["public", "hidden", "all"]),
    default="all",
    show_default=True,
    help="Which tests to run, of those that are there.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Seeds the inputs of the tests; the same seed gives the same result.",
)
@click.option(
    "--fail-under",
    metavar="PERCENT",
    type=click.FloatRange(0, 100),
    default=100.0,
    help="Exit with 0 from this percentage of the points on; by default 100.",
)
@click.option(
    "--require-isolation",
    metavar="LEVEL",
    type=click.Choice(LEVELS),
    default="none",
    help="Refuse to judge behind less: " + ", ".join(LEVELS) + ". See `grade doctor`.",
)
@click.option(
    "--no-isolation", is_flag=True, help="Run the code without any wall: only what you trust."
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Show every test, what your code printed, and times."
)
def run(
    exercises: tuple[str, ...],
    course_path: Path,
    submission: Path | None,
    json_file: Path | None,
    suite: str,
    seed: int,
    fail_under: float,
    require_isolation: str,
    no_isolation: bool,
    verbose: bool,
) -> None:
    """Judge exercises: all of them, or those that you name.

    Shows the points of each exercise and, for what does not hold yet, what is wrong, where, and
    a hint. Your code runs in a process of its own; your files are not changed.

    \b
    Examples:
      grade run                          everything in ./exercises
      grade run glu gelu                 two exercises
      grade run --submission alice/      somebody else's folder
      grade run --json result.json       and the result for a program
    """
    course = open_course(course_path)
    selected = known_exercises(course, exercises)
    submission = submission or course.folder
    from grader.displays import RunDisplay
    from grader.grading import grade

    with RunDisplay(selected) as display:
        result = grade(
            submission,
            course=course,
            exercises=exercises,
            seed=seed,
            suite=suite,
            walls=not no_isolation,
            require_isolation=require_isolation,
            progress=display,
        )
    if json_file is not None:
        _write(json_file, result)
    if json_file != _STDOUT:
        _show(result, course, submission, verbose)
    # Rounded to hundredths, as points are: no share of them may miss its limit by a last bit.
    enough = result.score >= round(result.max_score * fail_under / 100, 2)
    click.get_current_context().exit(ExitCode.FULL_MARKS if enough else ExitCode.BELOW)


def _write(path: Path, result: Result) -> None:
    from grader.results import to_json

    if path == _STDOUT:
        click.echo(to_json(result), nl=False)
        return
    try:
        path.write_bytes(to_json(result))
    except OSError as error:
        raise GraderError(f"The result cannot be written to {path}: {error.strerror}.") from error


def _show(result: Result, course: Course, submission: Path, verbose: bool) -> None:
    from grader.advice import Guide
    from grader.console import open_console
    from grader.panels import show_result

    options = _repeated("course_path", "submission", "suite", "seed")
    guide = Guide(course, submission, options, _repeated("course_path"))
    show_result(open_console(sys.stdout), result, guide, verbose=verbose)


def _repeated(*names: str) -> str:
    """The options among these that the caller gave, as they are typed again."""
    context = click.get_current_context()
    flags = {each.name: each.opts[0] for each in context.command.params}
    given = [n for n in names if context.get_parameter_source(n) is ParameterSource.COMMANDLINE]
    return "".join(f" {flags[name]} {shlex.quote(str(context.params[name]))}" for name in given)
