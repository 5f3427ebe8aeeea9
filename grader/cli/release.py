"""`grade release`: the students' copy of a course."""

from __future__ import annotations

import os
from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.author import own_course, shell_path
from grader.cli.border import Command


@click.command(cls=Command)
@click.argument("folder", type=click.Path(path_type=Path))
@shared.course_option
@shared.assignment_option
@click.option(
    "--grader",
    metavar="TEXT",
    default="",
    help="The package that students install with pip: a name, a wheel, an address (git+https://...). By "
    "default a wheel of this grader, which is included.",
)
@click.option(
    "--action",
    metavar="NAME",
    default="",
    help="The GitHub action for the workflow, as owner/name@version. By default the workflow "
    "installs the grader and runs it.",
)
@click.option(
    "--fail-under",
    metavar="PERCENT",
    type=shared.FiniteRange(0, 100),
    default=0.0,
    help="The check of a push is red below this percentage of the points. By default it is green once "
    "everything was judged.",
)
@click.option(
    "--suites",
    type=click.Choice(["public", "all"]),
    default="public",
    show_default=True,
    help="The suites that students get. 'all' is for self-study: with hidden suites and sealed solutions.",
)
@click.option(
    "--force", is_flag=True, help="Replace the files of an earlier release, but no others."
)
def release(
    folder: Path,
    course_path: Path,
    assignment: str | None,
    grader: str,
    action: str,
    fail_under: float,
    suites: str,
    force: bool,
) -> None:
    """Write the students' copy of a course to FOLDER: stubs, public suites, README, workflow, the grader.

    Hidden suites, their probes, solutions, right and wrong answers, and comments of the manifest are left out.
    Public tests' results for the wrong answers are included as data, so that mistakes have names; a course of
    40 exercises takes a few minutes. The same course makes the same release. Its public tests grade the stubs
    and the solutions before anything is written. Students read "public tests passed" instead of "done", since
    other tests decide about marks.

    With --assignment, only that assignment's exercises are included. Unpacked over the release of an earlier
    assignment, or written into it with --force, they change no file of another assignment.

    --suites all is for self-study: it includes hidden suites, their probes, and solutions that `grade solution`
    opens once all tests have passed. Anybody who looks can find them, so do not base marks on it.

    \b
    Examples:
      grade release ../students
      grade release ../self-study --suites all
      grade release ../students --force        replace last week's release
      grade release ../week3 --assignment week3    the exercises of one assignment
      grade release ../students --fail-under 100    pushes are red until full marks
    """
    course = own_course(course_path, assignment)
    from grader.authoring.release import Tier
    from grader.authoring.release import release as write
    from grader.cli.terminal.progress import ProgressBar

    with ProgressBar("exercises") as bar:
        bar.start("Observing wrong answers", len(course.exercises))
        released = write(
            course,
            folder,
            suites=Tier(suites),
            requirement=grader,
            action=action,
            fail_under=fail_under,
            force=force,
            judge=True,
            jobs=os.cpu_count() or 1,
            done=lambda _: bar.advance(),
        )
    earlier = f", {released.removed} of the earlier release removed" if released.removed else ""
    click.echo(f"{len(released.files)} files in {shell_path(folder)}{earlier}.")
    click.echo(f"Read {shell_path(folder / 'README.md')}, which your students read first.")
    if not (folder / ".git").exists():
        click.echo(
            f"Hand it out as a zip, or as a git repository: `git -C {shell_path(folder)} init -b main`, then "
            "`add -A`, `commit` and `push` there; on GitHub its workflow judges each push."
        )
