"""`grade pack`: the graders' copy of a course."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.author import own_course, shell_path
from grader.cli.border import Command
from grader.course.manifest import Course


@click.command(cls=Command)
@shared.course_option
@shared.assignment_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=shared.FILE,
    required=True,
    help="The archive to write.",
)
def pack(course_path: Path, assignment: str | None, output: Path) -> None:
    """Write the graders' copy of a course: one archive, with hidden suites and solutions.

    Commands read it directly: `grade run --course course.pack --submission alice/`. The same course
    makes the same bytes. The stubs and the solutions are graded before it is written.

    \b
    Examples:
      grade pack -o course.pack
      grade pack -o week3.pack --assignment week3
    """
    course = own_course(course_path, assignment)
    from grader.authoring.part import extracted
    from grader.authoring.trial import try_out
    from grader.course.manifest import MANIFEST, load_course
    from grader.course.pack import write_pack

    with contextlib.ExitStack() as stack:
        part = course
        if course.assignments:
            part = stack.enter_context(extracted(course, course.files()))
        info, files = part.info(), part.files()
        manifest = part.name_of(part.folder / MANIFEST)
        draft = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "course.pack"
        write_pack(draft, info, manifest, files)
        try_out(load_course(draft), course, seed=seed_of(course))
        digest = write_pack(output, info, manifest, files)
    click.echo(f"{shell_path(output)}: {course.title}, {len(files)} files.")
    click.echo(f"course {info.digest}")
    click.echo(f"sha256 {digest}")
    if any(name.startswith(("solutions/", "tests/hidden/")) for name in files):
        click.echo("It contains the solutions and the hidden suites: keep it from students.")


def seed_of(course: Course) -> int:
    """Return the seed with which the course grades: its assignment's, if it has one."""
    return (course.assignment.seed or 0) if course.assignment is not None else 0
