"""`grade release`, `pack` and `package`: what students get, what graders get, and what a platform gets."""

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
    help="What students install with pip: a name, a wheel, an address (git+https://...). By default a "
    "wheel of this grader, which goes along.",
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
@click.option("--force", is_flag=True, help="Replace the files of an earlier release, no others.")
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
    """Write what students get to a FOLDER: stubs, public suites, README, workflow, the grader.

    Hidden suites, their probes, solutions, right and wrong answers stay at home, and so do the
    comments of the manifest. What public tests see of wrong answers goes out as data, by which students
    read the sentences of mistakes. To run the wrong answers of 40 exercises takes a minute or two. The same
    course makes the same release. Its public tests grade the stubs and the solutions before anything is
    written. Students are told "public tests passed", never "done", since tests that they do not have decide
    about marks.

    With --assignment it holds the exercises of that assignment alone. Unpacked over the release of an earlier
    assignment, or written beside it with --force, it changes no file of another assignment.

    With --suites all, for who learns alone, hidden suites and their probes go out too, and solutions that
    `grade solution` opens once all tests have passed. Nothing of it is secret from who looks: give
    no marks by it.

    \b
    Examples:
      grade release ../students
      grade release ../self-study --suites all
      grade release ../students --force        replace the one from last week
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
    click.echo(f"Look at {shell_path(folder / 'README.md')}, which your students read first.")
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
    """Write what graders get: one archive with all of the course, hidden suites and solutions too.

    Commands take it as it is: `grade run --course course.pack --submission alice/`. The same course
    makes the same bytes. The pack grades the stubs and the solutions before it is written.

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
        click.echo("It holds the solutions and the hidden suites: keep it from students.")


@click.command(cls=Command)
@click.argument("platform", type=click.Choice(["gradescope"]))
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=shared.FILE,
    help="The zip to write, which you upload.",
)
@shared.course_option
@shared.assignment_option
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
    type=click.Choice(shared.LEVELS),
    default="kernel",
    show_default=True,
    help="Grade nothing behind less there: " + ", ".join(shared.LEVELS) + ". See docs/ci.md.",
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
    With --assignment it judges with the assignment's seed. The package grades the stubs and the solutions
    before it is written. Keep it as you keep the hidden suites.

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
    """The seed with which the course grades: that of its assignment, if it has one."""
    return (course.assignment.seed or 0) if course.assignment is not None else 0
