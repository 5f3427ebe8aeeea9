"""`grade release`, `pack` and `package`: copies of a course for students, graders and platforms."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.author import own_course, shell_path
from grader.cli.border import Command
from grader.course.manifest import Course


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
        try_out(load_course(draft), course, seed=_seed_of(course))
        digest = write_pack(output, info, manifest, files)
    click.echo(f"{shell_path(output)}: {course.title}, {len(files)} files.")
    click.echo(f"course {info.digest}")
    click.echo(f"sha256 {digest}")
    if any(name.startswith(("solutions/", "tests/hidden/")) for name in files):
        click.echo("It contains the solutions and the hidden suites: keep it from students.")


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
        seed=_seed_of(course),
        pip_options=pip_options,
    )
    with ProgressBar("exercises") as bar:
        bar.start("Observing wrong answers", len(course.exercises))
        names = write_gradescope(
            output, course, options, jobs=os.cpu_count() or 1, done=lambda _: bar.advance()
        )
    click.echo(f"Wrote {output} ({output.stat().st_size / 1e6:.1f} MB): {', '.join(names)}.")
    click.echo("Upload it as the autograder of the assignment, and test it with a solution.")


def _seed_of(course: Course) -> int:
    """Return the seed with which the course grades: its assignment's, if it has one."""
    return (course.assignment.seed or 0) if course.assignment is not None else 0
