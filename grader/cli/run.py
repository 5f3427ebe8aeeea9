"""`grade run`: judge a submission, show the result, write it as JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.errors import ExitCode, not_written

if TYPE_CHECKING:
    from grader.course.manifest import Course
    from grader.results import Result
    from grader.student.next_step import Guide
    from grader.student.progress import Standing

_OF_COURSE = "course"
_LONGEST_LINE = 1000


@click.command(cls=Command)
@shared.exercises_argument
@click.option("--all", "everything", is_flag=True, help="Judge every exercise of the course.")
@shared.course_option
@shared.assignment_option
@click.option(
    "--submission",
    metavar="PATH",
    type=shared.EXISTING,
    help="A folder, or the file of one exercise. By default the course's own exercises folder. A file may have "
    "any name if you name one exercise.",
)
@shared.json_option
@click.option(
    "--pytest-report",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=shared.writable,
    help="Also write the result in the format of pytest-json-report.",
)
@click.option(
    "--errors",
    "as_errors",
    is_flag=True,
    help="For an editor: print problems as lines `file:line:column: error: message`, and nothing else on "
    "stdout.",
)
@shared.suite_option
@shared.seed_option
@shared.fail_under_option
@click.option(
    "--disclose",
    metavar="LEVEL",
    type=click.Choice((*shared.DISCLOSURES, _OF_COURSE)),
    default="everything",
    help="How much students may read of hidden tests: "
    + ", ".join(shared.DISCLOSURES)
    + f", or '{_OF_COURSE}' for the level in course.toml; by default everything.",
)
@shared.isolation_option
@click.option(
    "--no-isolation",
    is_flag=True,
    help="Run the code without any wall. Only for code that you trust.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show every test, printed output, and times.")
def run(
    exercises: tuple[str, ...],
    everything: bool,
    course_path: Path,
    assignment: str | None,
    submission: Path | None,
    json_file: Path | None,
    pytest_report: Path | None,
    as_errors: bool,
    suite: str,
    seed: int,
    fail_under: float,
    disclose: str,
    require_isolation: str,
    no_isolation: bool,
    verbose: bool,
) -> None:
    """Judge the first exercise that is not done, or the ones you name.

    An exercise is done once all of its tests passed, until its file or its tests change.
    --all judges every exercise. So do --submission, --json and --fail-under, if you name no exercise.
    A submission without any file of the course is an error, unless you give --json or --pytest-report:
    then every exercise is missing.

    Shows the points of each exercise and, for each problem, its reason, its place and a hint.
    Your code runs in a separate process; your files are not changed, and your progress
    is kept in .grade beside them.

    \b
    Examples:
      grade run                          the first exercise that is not done
      grade run glu gelu                 two exercises
      grade run --all                    everything in ./exercises
      grade run --all --assignment week3 the exercises of one assignment
      grade run exercises/modules/glu.py the same as grade run glu
      grade run --submission alice/      another student's folder, all of it
      grade run glu --submission old.py  a file of any name
      grade run --json result.json       everything, and the result for a program
      grade run glu --errors             for an editor's list of problems
    """
    if as_errors and json_file == shared.STDOUT:
        raise click.UsageError("--errors and --json - both write to stdout: give --json a file.")
    if everything and exercises:
        raise click.UsageError("Name exercises or give --all, not both.")
    course = shared.open_course(course_path, assignment)
    if course.assignment is not None and course.assignment.seed and not shared.was_given("seed"):
        seed = course.assignment.seed
    if exercises:
        exercises = tuple(exercise.id for exercise in shared.known_exercises(course, exercises))
    own = submission is None or submission.samefile(course.folder)
    # A program that reads the result also wants one for a student who handed in nothing.
    allow_empty = json_file is not None or pytest_report is not None
    workspace = shared.open_workspace(course, allow_empty=allow_empty) if own else None
    submission = submission or course.folder
    bare = False
    if workspace and not (
        exercises or everything or shared.was_given("submission", "json_file", "fail_under")
    ):
        bare = True
        if (first_open := workspace.first_open()) is None:
            from grader.cli.terminal.console import open_console
            from grader.cli.terminal.result import show_complete

            console = open_console(sys.stderr if as_errors else sys.stdout)
            show_complete(console, _guide(course, submission, bare, workspace.standings()))
            return
        exercises = (first_open.id,)
    from grader.cli.terminal.progress import RunDisplay
    from grader.grading import grade

    with RunDisplay(course.select(exercises)) as display:
        result = grade(
            workspace.submission if workspace is not None else submission,
            course=course,
            exercises=exercises,
            seed=seed,
            suite=suite,
            walls=not no_isolation,
            require_isolation=require_isolation,
            allow_empty=allow_empty,
            progress=display,
        )
    if workspace is not None:
        workspace.record(result, suite)
        shared.tell_notices(workspace)
    if disclose != shared.DISCLOSURES[-1]:
        from grader.exports.disclosure import disclosed_result

        level = None if disclose == _OF_COURSE else shared.disclosure(disclose)
        result = disclosed_result(result, level)
    if json_file is not None:
        write_json(json_file, result)
    if pytest_report is not None:
        import msgspec

        from grader.judge.pytest_report import report_of

        report = msgspec.json.encode(report_of(result, course))
        _write_bytes(pytest_report, msgspec.json.format(report))
    if json_file != shared.STDOUT:
        standings = workspace.standings() if workspace is not None else {}
        guide = _guide(course, submission, bare, standings)
        if as_errors:
            _tell_errors(result, guide)
        else:
            from grader.cli.terminal.console import open_console
            from grader.cli.terminal.result import show_result

            show_result(open_console(sys.stdout), result, guide, verbose=verbose)
    click.get_current_context().exit(exit_code(result, fail_under))


def exit_code(result: Result, fail_under: float) -> ExitCode:
    """Return the exit code for a result."""
    from grader.judge.scoring import reaches
    from grader.results import Status

    if any(exercise.status is Status.UNJUDGED for exercise in result.exercises):
        return ExitCode.FAULT
    return ExitCode.FULL_MARKS if reaches(result, fail_under) else ExitCode.BELOW


def write_json(path: Path, result: Result) -> None:
    """Write a result as JSON, or to stdout if the path is `-`."""
    from grader.results import to_json

    if path == shared.STDOUT:
        click.echo(to_json(result), nl=False)
        return
    _write_bytes(path, to_json(result))


def _write_bytes(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise not_written(path, error) from error


def _guide(course: Course, submission: Path, bare: bool, standings: dict[str, Standing]) -> Guide:
    from grader.student.next_step import Asked, Guide

    asked = Asked.BARE if bare else Asked.BY_NAME
    options = shared.repeated("course_path", "assignment", "submission", "suite", "seed")
    return Guide(course, submission, options, shared.repeated("course_path"), asked, standings)


def _tell_errors(result: Result, guide: Guide) -> None:
    """Print lines for an editor; the next step, which is for the person, goes to stderr."""
    from grader.cli.terminal.errors import error_lines
    from grader.results import Status
    from grader.text import clean

    for exercise in result.exercises:
        for line in error_lines(exercise, guide):
            click.echo(line)
        if exercise.status is Status.UNJUDGED:
            text = f"{exercise.name} was not judged, which costs no points: {exercise.message}"
            click.echo(clean(text, _LONGEST_LINE), err=True)
    click.echo(guide.next_step(result.exercises), err=True)
