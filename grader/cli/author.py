"""`grade new`, `new-assignment`, `stub`, `release` and `pack`: write a course, and hand it out."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.cli.border import Command, ExitCode
from grader.cli.options import (
    assignment_option,
    course_option,
    exercises_argument,
    known_exercises,
    open_course,
)
from grader.errors import CourseError

if TYPE_CHECKING:
    import datetime

    from grader.authoring.scaffold import Scaffolded
    from grader.course.manifest import Course, Exercise

_EXAMPLE = "scaling"


@click.command(cls=Command, short_help="Begin an exercise.")
@click.argument("exercise", required=False)
@click.option(
    "--course",
    "folder",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="The course; a folder that is new or empty becomes one. By default the course around the "
    "current folder.",
)
@click.option(
    "--chapter", metavar="NAME", help="Its chapter; by default that of the last exercise."
)
@click.option("--title", metavar="TEXT", help="What students read; by default made from its name.")
def new(exercise: str | None, folder: Path | None, chapter: str | None, title: str | None) -> None:
    """Begin an exercise: a small and complete one, for you to edit.

    Writes solution, stub, suites, a probe, a right answer and two wrong ones, and the entry in the
    course's manifest. `grade verify` proves it right away. Replaces nothing.

    \b
    Examples:
      grade new rotary_embedding --chapter attention --title "Rotary embedding"
      grade new --course my_course                      a new course with an example
      grade new softmax --course my_course              a new exercise in it
    """
    with _usage():
        new = _new(exercise, folder, chapter, title)
    click.echo(f"Made {new.chapter}/{new.exercise}, small and complete, in {_path(new.root)}:")
    width = max(map(len, new.files))
    for name, purpose in new.files.items():
        click.echo(f"  {name:<{width}}  {purpose}")
    option = "" if folder is None else f" --course {_path(folder)}"
    click.echo(f"Next: `grade verify {new.exercise}{option}` proves it; then edit it.")


def _new(
    exercise: str | None, folder: Path | None, chapter: str | None, title: str | None
) -> Scaffolded:
    from grader.authoring.scaffold import is_empty, new_course, new_exercise

    if folder is not None and (is_empty(folder) or not _has_course(folder)):
        return new_course(folder, exercise or _EXAMPLE, chapter=chapter, title=title)
    if exercise is None:
        raise click.UsageError("Name the new exercise.", click.get_current_context())
    if folder is None and not _has_course(Path()):
        raise CourseError(
            "There is no course here or above. To begin one in a folder of its own: "
            f"grade new {exercise} --course FOLDER"
        )
    course = open_course(folder or Path())
    return new_exercise(course, exercise, chapter=chapter, title=title)


def _has_course(folder: Path) -> bool:
    from grader.course.manifest import find_course

    with contextlib.suppress(CourseError):
        return find_course(folder).is_file()
    return False


@click.command(cls=Command, short_help="Begin an assignment.")
@click.argument("assignment", metavar="ID")
@click.argument("exercises", nargs=-1, metavar="EXERCISE|CHAPTER...")
@course_option
@click.option("--title", metavar="TEXT", help="What students read; by default made from its id.")
@click.option("--opens", metavar="TIME", help="When it is handed out, as 2026-10-05T08:00.")
@click.option("--due", metavar="TIME", help="When it is due, as 2026-10-12T23:59:59.")
@click.option(
    "--timezone",
    metavar="NAME",
    default="",
    help="The time zone of all assignments, as Europe/Warsaw; given once, with the first time.",
)
@click.option(
    "--weight",
    metavar="NUMBER",
    type=click.FloatRange(0),
    help="Its share in the total; by default 1.",
)
@click.option(
    "--extra-credit",
    metavar="EXERCISE",
    multiple=True,
    help="An exercise that full marks do not need; give it once for each.",
)
@click.option("--teams", is_flag=True, help="What one member of a team hands in counts for all.")
def new_assignment(
    assignment: str,
    exercises: tuple[str, ...],
    course_path: Path,
    title: str | None,
    opens: str | None,
    due: str | None,
    timezone: str,
    weight: float | None,
    extra_credit: tuple[str, ...],
    teams: bool,
) -> None:
    """Begin an assignment: what is handed out together, when it is due, and what it counts.

    Adds it to assignments.toml beside course.toml, with a seed for its hidden tests that is drawn once and
    not shown. What is not in order is an error, and then nothing is written. docs/instructors.md explains every
    key of the file.

    \b
    Examples:
      grade new-assignment week1 tensors --due 2026-10-12T23:59:59 --timezone Europe/Warsaw
      grade new-assignment week2 glu hooks buffers --extra-credit hooks
    """
    course = _folder_of(course_path)
    from grader.authoring.scaffold import new_assignment as begin

    chapters = [name for name in exercises if name in course.chapters]
    values = {
        "title": title,
        "chapters": chapters,
        "exercises": [name for name in exercises if name not in chapters],
        "opens": _time("--opens", opens),
        "due": _time("--due", due),
        "weight": weight,
        "extra_credit": list(extra_credit),
        "teams": teams,
    }
    with _usage():
        path, begun = begin(course, assignment, values, timezone)
    due_words = f", due {begun.due_at:%Y-%m-%d %H:%M:%S %Z}" if begun.due is not None else ""
    names = ", ".join(begun.exercises)
    file = _path(Path(course.name_of(path)))
    click.echo(f"{begun.id} ({begun.title}){due_words}: {names}. Written to {file}.")
    click.echo(f"Next: `grade release FOLDER --assignment {begun.id}` writes what students get.")


def _time(option: str, text: str | None) -> datetime.datetime | None:
    import datetime

    if text is None:
        return None
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(
            f"{option}: {text!r} is no time; write it as 2026-10-12T23:59:59.",
            click.get_current_context(),
        ) from error


@click.command(cls=Command, short_help="Make stubs from solutions.")
@exercises_argument
@course_option
@click.option("--check", is_flag=True, help="Write nothing; say which stubs have drifted, and how.")
@click.option("--force", is_flag=True, help="Replace a stub in exercises/ that was worked in.")
def stub(exercises: tuple[str, ...], course_path: Path, check: bool, force: bool) -> None:
    """Make the stub from the solution, by its `# begin solution` and `# end solution` markers.

    Writes it to exercises/. Without the name of an exercise, of all whose solutions have markers. With
    --check it exits with 1 if one has drifted.

    \b
    Examples:
      grade stub softmax          write its stub
      grade stub --check          say which stubs are not up to date
    """
    course = _folder_of(course_path)
    selected = known_exercises(course, exercises)
    if check:
        drifted = [_check(course, e) for e in selected if course.solution(e).is_file()]
        click.get_current_context().exit(ExitCode.BELOW if any(drifted) else ExitCode.FULL_MARKS)
    from grader.authoring.consistency import write_stub

    marked = selected if exercises else [e for e in selected if _is_marked(course, e)]
    if not marked:
        raise click.UsageError(
            "No solution of this course has markers; see docs/authoring.md.",
            click.get_current_context(),
        )
    for exercise in marked:
        written = write_stub(course, exercise, force=force)
        for path in written.files:
            state = "written" if path in written.changed else "up to date"
            click.echo(f"{course.name_of(path)}: {state}")


def _is_marked(course: Course, exercise: Exercise) -> bool:
    from grader.course.stub import has_markers

    path = course.solution(exercise)
    return path.is_file() and has_markers(path.read_text(encoding="utf-8", errors="replace"))


def _check(course: Course, exercise: Exercise) -> bool:
    """Print how a stub has drifted, and return whether it has."""
    from grader.authoring.consistency import drift
    from grader.text import clean_lines

    complaints = drift(course, exercise)
    for complaint in complaints:
        click.echo(clean_lines(complaint, 10_000))
    if not complaints:
        click.echo(f"{exercise.id}: up to date")
    return bool(complaints)


@click.command(cls=Command, short_help="Write what students get.")
@click.argument("folder", type=click.Path(path_type=Path))
@course_option
@assignment_option
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
    type=click.FloatRange(0, 100),
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
    "--mistakes",
    is_flag=True,
    help="Run the wrong answers in the suites that go out, and name mistakes by what these saw: a minute "
    "or more.",
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
    mistakes: bool,
    force: bool,
) -> None:
    """Write what students get to a FOLDER: stubs, public suites, README, workflow, the grader.

    Hidden suites, their probes, solutions, right and wrong answers stay at home, and so do the
    comments of the manifest. With --mistakes what public tests see of wrong answers goes out as data, so that
    mistakes have names there. The same course makes the same release. Students are told "public tests
    passed", never "done", since tests that they do not have decide about marks.

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
      grade release ../students --mistakes     name more mistakes than the public suites do
      grade release ../students --fail-under 100    pushes are red until full marks
    """
    course = _folder_of(course_path, assignment)
    from grader.authoring.release import Tier
    from grader.authoring.release import release as write
    from grader.cli.terminal.progress import ProgressBar

    with ProgressBar("exercises") as bar:
        if mistakes:
            bar.start("Observing wrong answers", len(course.exercises))
        released = write(
            course,
            folder,
            suites=Tier(suites),
            requirement=grader,
            action=action,
            fail_under=fail_under,
            force=force,
            observe=mistakes,
            jobs=os.cpu_count() or 1,
            done=lambda _: bar.advance(),
        )
    earlier = f", {released.removed} of the earlier release removed" if released.removed else ""
    click.echo(f"{len(released.files)} files in {_path(folder)}{earlier}.")
    click.echo(f"Look at {_path(folder / 'README.md')}, which your students read first.")
    if not (folder / ".git").exists():
        click.echo(
            f"Hand it out as a zip, or as a git repository: `git -C {_path(folder)} init -b main`, then "
            "`add -A`, `commit` and `push` there; on GitHub its workflow judges each push."
        )


@click.command(cls=Command, short_help="Write what graders get, as one file.")
@course_option
@assignment_option
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The archive to write.",
)
def pack(course_path: Path, assignment: str | None, output: Path) -> None:
    """Write what graders get: one archive with all of the course, hidden suites and solutions too.

    Commands take it as it is: `grade run --course course.pack --submission alice/`. The same course
    makes the same bytes.

    \b
    Examples:
      grade pack -o course.pack
      grade pack -o week3.pack --assignment week3
    """
    course = _folder_of(course_path, assignment)
    from grader.authoring.part import extracted
    from grader.course.manifest import MANIFEST
    from grader.course.pack import write_pack

    with contextlib.ExitStack() as stack:
        part = course
        if course.assignments:
            part = stack.enter_context(extracted(course, course.files()))
        info, files = part.info(), part.files()
        digest = write_pack(output, info, part.name_of(part.folder / MANIFEST), files)
    click.echo(f"{_path(output)}: {course.title}, {len(files)} files.")
    click.echo(f"course {info.digest}")
    click.echo(f"sha256 {digest}")
    if any(name.startswith(("solutions/", "tests/hidden/")) for name in files):
        click.echo("It holds the solutions and the hidden suites: keep it from students.")


def _folder_of(path: Path, assignment: str | None = None) -> Course:
    """The course, unless it is a pack, which its author cannot change."""
    course = open_course(path, assignment)
    if course.unpacked is not None:
        raise click.UsageError(
            "This takes the course's folder, and no pack of it.", click.get_current_context()
        )
    return course


@contextlib.contextmanager
def _usage() -> Iterator[None]:
    """An exercise or course that cannot be begun is a usage error."""
    try:
        yield
    except CourseError as error:
        raise click.UsageError(str(error), click.get_current_context()) from error


def _path(path: Path) -> str:
    """A path as a shell takes it."""
    import shlex

    from grader.text import clean

    return clean(shlex.quote(str(path)), 1000)
