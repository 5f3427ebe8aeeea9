"""`grade new`, `new-assignment` and `stub`: write a course."""

from __future__ import annotations

import contextlib
import datetime
import shlex
from pathlib import Path

import click

from grader.authoring.consistency import drift, write_stub
from grader.authoring.scaffold import Scaffolded, is_empty, new_course, new_exercise
from grader.authoring.scaffold import new_assignment as begin
from grader.cli import options as shared
from grader.cli.border import Command
from grader.course.manifest import Course, find_course
from grader.errors import CourseError, ExitCode
from grader.submissions.times import read_time
from grader.text import clean, clean_lines

_EXAMPLE = "scaling"


@click.command(cls=Command)
@click.argument("exercise", required=False)
@click.option(
    "--course",
    "folder",
    metavar="FOLDER",
    type=shared.FOLDER,
    help="The course; a folder that is new or empty becomes one. By default the course around the "
    "current folder.",
)
@click.option(
    "--chapter", metavar="NAME", help="Its chapter; by default that of the last exercise."
)
@click.option(
    "--title", metavar="TEXT", help="The title for students; by default made from the name."
)
def new(exercise: str | None, folder: Path | None, chapter: str | None, title: str | None) -> None:
    """Begin an exercise: write a small and complete one for you to edit.

    Writes solution, stub, suites, a probe, a right answer and two wrong ones, and the entry in the
    course's manifest. Never replaces a file. `grade verify` can prove the exercise right away.

    \b
    Examples:
      grade new rotary_embedding --chapter attention --title "Rotary embedding"
      grade new --course my_course                      a new course with an example
      grade new softmax --course my_course              a new exercise in it
    """
    with shared.usage_errors():
        new = _new(exercise, folder, chapter, title)
    click.echo(f"Made {new.chapter}/{new.exercise}, small and complete, in {shell_path(new.root)}:")
    width = max(map(len, new.files))
    for name, purpose in new.files.items():
        click.echo(f"  {name:<{width}}  {purpose}")
    option = "" if folder is None else f" --course {shell_path(folder)}"
    click.echo(f"Next: `grade verify {new.exercise}{option}` proves it; then edit it.")


def _new(
    exercise: str | None, folder: Path | None, chapter: str | None, title: str | None
) -> Scaffolded:
    """Begin a course in an empty folder, or an exercise in an existing course."""
    if folder is not None and (is_empty(folder) or not _has_course(folder)):
        return new_course(folder, exercise or _EXAMPLE, chapter=chapter, title=title)
    if exercise is None:
        raise click.UsageError("Name the new exercise.")
    if folder is None and not _has_course(Path()):
        raise CourseError(
            "There is no course here or above. To begin one in a new folder: "
            f"grade new {exercise} --course FOLDER"
        )
    course = shared.open_course(folder or Path())
    return new_exercise(course, exercise, chapter=chapter, title=title)


def _has_course(folder: Path) -> bool:
    with contextlib.suppress(CourseError):
        return find_course(folder).is_file()
    return False


@click.command(cls=Command)
@click.argument("assignment", metavar="ID")
@click.argument("exercises", nargs=-1, metavar="EXERCISE|CHAPTER...")
@shared.course_option
@click.option(
    "--title", metavar="TEXT", help="The title for students; by default made from the id."
)
@click.option("--opens", metavar="TIME", help="The opening time, as 2026-10-05T08:00.")
@click.option("--due", metavar="TIME", help="The due time, as 2026-10-12T23:59:59.")
@click.option(
    "--timezone",
    metavar="NAME",
    default="",
    help="The time zone of all assignments, as Europe/Warsaw; given once, with the first time.",
)
@click.option(
    "--weight",
    metavar="NUMBER",
    type=shared.FiniteRange(0, 1_000_000),
    help="Its weight in the total; by default 1.",
)
@click.option(
    "--extra-credit",
    metavar="EXERCISE",
    multiple=True,
    help="An exercise that full marks do not need; may be repeated.",
)
@click.option("--teams", is_flag=True, help="A submission by one member of a team counts for all.")
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
    """Begin an assignment: exercises that are handed out together, with a due time and a weight.

    Adds it to assignments.toml beside course.toml, with a secret seed for its hidden tests. If there is a
    mistake, nothing is written. docs/reference.md explains every key of the file.

    \b
    Examples:
      grade new-assignment week1 tensors --due 2026-10-12T23:59:59 --timezone Europe/Warsaw
      grade new-assignment week2 glu hooks buffers --extra-credit hooks
    """
    course = own_course(course_path)

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
    with shared.usage_errors():
        path, begun = begin(course, assignment, values, timezone)
    due_words = f", due {begun.due_at:%Y-%m-%d %H:%M:%S %Z}" if begun.due is not None else ""
    names = ", ".join(begun.exercises)
    file = shell_path(Path(course.name_of(path)))
    click.echo(f"{begun.id} ({begun.title}){due_words}: {names}. Written to {file}.")
    click.echo(f"Next: `grade release FOLDER --assignment {begun.id}` writes the students' copy.")


def _time(option: str, text: str | None) -> datetime.datetime | None:
    """Parse a time of the command line; raise a usage error if it is not one."""
    if text is None:
        return None
    try:
        return read_time(text)
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from error


@click.command(cls=Command)
@shared.exercises_argument
@shared.course_option
@click.option(
    "--check",
    is_flag=True,
    help="Write nothing; show stubs that are not up to date, and their changes.",
)
@click.option(
    "--force", is_flag=True, help="Replace a stub in exercises/ even if it contains work."
)
def stub(exercises: tuple[str, ...], course_path: Path, check: bool, force: bool) -> None:
    """Make stubs from solutions, by their `# begin solution` and `# end solution` markers.

    Writes them to exercises/, for the named exercises or for every solution with markers. With --check,
    exits with 1 if a stub is not up to date.

    \b
    Examples:
      grade stub softmax          write its stub
      grade stub --check          list stubs that are not up to date
    """
    course = own_course(course_path)
    selected = shared.known_exercises(course, exercises)
    if check:
        has_drifted = False
        for exercise in (e for e in selected if course.solution(e).is_file()):
            complaints = drift(course, exercise)
            has_drifted |= bool(complaints)
            for complaint in complaints or (f"{exercise.id}: up to date",):
                click.echo(clean_lines(complaint, 10_000))
        click.get_current_context().exit(ExitCode.BELOW if has_drifted else ExitCode.FULL_MARKS)
    marked = selected if exercises else [e for e in selected if course.derived_stub(e)]
    if not marked:
        raise click.UsageError("No solution of this course has markers; see docs/authoring.md.")
    for exercise in marked:
        written = write_stub(course, exercise, force=force)
        for path in written.files:
            state = "written" if path in written.changed else "up to date"
            click.echo(f"{course.name_of(path)}: {state}")


def own_course(path: Path, assignment: str | None = None) -> Course:
    """Open the course; a pack is refused, because an author cannot change it."""
    course = shared.open_course(path, assignment)
    if course.unpacked is not None:
        raise click.UsageError("This needs the course's folder, not a pack of it.")
    return course


def shell_path(path: Path) -> str:
    """Quote a path for a shell."""
    return clean(shlex.quote(str(path)), 1000)
