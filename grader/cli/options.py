"""Options and arguments that several commands share, and functions that resolve them."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from grader.cli.border import tell
from grader.errors import CourseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from grader.course.manifest import Course, Exercise
    from grader.results import Disclosure
    from grader.student.workspace import Workspace

# The levels of grader.sandbox.walls.survey, copied so that `grade --help` need not import it.
LEVELS = ("none", "limits", "kernel", "namespaces", "full")

EXISTING = click.Path(exists=True, path_type=Path)
EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
EXISTING_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


class FiniteRange(click.FloatRange):
    """A number within bounds. Refuses `inf`, and `nan`, which no comparison with a bound excludes."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Convert to a number, or raise a usage error."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


course_option = click.option(
    "--course",
    "course_path",
    metavar="PATH",
    type=EXISTING,
    default=Path(),
    help="The course's folder, or a pack of it (see `grade pack`). By default the course of the current "
    "folder or one above it.",
)
assignment_option = click.option(
    "--assignment",
    "assignment",
    metavar="ID",
    help="Use only this assignment's exercises; see docs/reference.md.",
)
server_option = click.option(
    "--server",
    "address",
    metavar="ADDRESS",
    help="Work on a running server instead of RESULTS, with your token of `grade login`.",
)
assignment_of_results_option = click.option(
    "--assignment",
    "assignment",
    metavar="ID",
    help="In RESULTS of a whole course, use only this assignment's exercises.",
)
isolation_option = click.option(
    "--require-isolation",
    metavar="LEVEL",
    type=click.Choice(LEVELS),
    default="none",
    help="The weakest isolation to judge behind: " + ", ".join(LEVELS) + ". See `grade doctor`.",
)
seed_option = click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="The seed of the tests' inputs; the same seed gives the same result.",
)
suite_option = click.option(
    "--suite",
    type=click.Choice(["public", "hidden", "all"]),
    default="all",
    show_default=True,
    help="Which tests to run.",
)
# The levels of grader.results.Disclosure, copied so that `grade --help` need not import it.
DISCLOSURES = ("nothing", "title", "mistake", "everything")
disclose_option = click.option(
    "--disclose",
    metavar="LEVEL",
    type=click.Choice(DISCLOSURES),
    help="What students may read of hidden tests: "
    + ", ".join(DISCLOSURES)
    + ". By default as in course.toml.",
)
results_argument = click.argument("results", metavar="RESULTS", type=EXISTING_FOLDER)
anonymous_option = click.option(
    "--anonymous",
    is_flag=True,
    help="Show pseudonyms instead of ids, names, addresses and origins; see docs/reference.md.",
)
output_option = click.option(
    "-o",
    "--output",
    "results",
    metavar="RESULTS",
    required=True,
    type=FOLDER,
    help="The folder of the gradebook, which is created or continued.",
)
roster_option = click.option(
    "--roster",
    "roster_file",
    metavar="CSV",
    type=EXISTING_FILE,
    help="The students of the class: ids, names, addresses. See docs/intake.md.",
)
jobs_option = click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    help="How many files to judge at a time; by default the number of processors.",
)
scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Judge on the Dask cluster at this address instead of here; see docs/cluster.md.",
)
STDOUT = Path("-")


def writable(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a file that cannot be created, before grading instead of after it."""
    if path is not None and path != STDOUT and not path.absolute().parent.is_dir():
        raise click.BadParameter(f"There is no folder {path.parent}.", context, parameter)
    return path


json_option = click.option(
    "--json",
    "json_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
    callback=writable,
    help="Also write the result as JSON; with '-', write only that, to stdout.",
)
fail_under_option = click.option(
    "--fail-under",
    metavar="PERCENT",
    type=FiniteRange(0, 100),
    default=100.0,
    help="Exit with 1 below this percentage of the points; by default 100.",
)
exercises_argument = click.argument("exercises", nargs=-1, metavar="[EXERCISE]...")


def open_course(path: Path, assignment: str | None = None) -> Course:
    """Open the course at or above `path`, or a pack, with only the exercises of an assignment if one is named.

    A missing course and an unknown assignment are usage errors.
    """
    from grader.course.manifest import find_course, is_pack, load_course

    if is_pack(path):
        course = load_course(path)
    else:
        with usage_errors():
            manifest = find_course(path)
        course = load_course(manifest)
    return course if assignment is None else assigned(course, assignment)


def assigned(course: Course, assignment: str) -> Course:
    """Return the course with only the exercises of an assignment; an unknown one is a usage error."""
    with usage_errors():
        return course.assigned(assignment)


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a CourseError into a usage error: the named thing does not exist or cannot be created."""
    try:
        yield
    except CourseError as error:
        raise click.UsageError(str(error)) from error


def known_exercises(course: Course, names: Sequence[str]) -> tuple[Exercise, ...]:
    """Return the named exercises in the order of the course, or all if none is named.

    A name is an id, a chapter, or the path of either as a shell completes it. Others are usage errors.
    """
    ids = [exercise.id for exercise in course.exercises]
    chosen: list[str] = []
    for name in names:
        meant = [name] if name in ids else _at_path(course, name)
        if not meant and _is_command(name):  # as in `grade --course FOLDER list`
            raise click.UsageError(
                f"There is no exercise {name!r}. If you mean the command, write it first: "
                f"`grade {name} ...`."
            )
        with usage_errors():
            chosen += meant or [course.exercise(name).id]
    return course.select(tuple(dict.fromkeys(chosen)))


def _is_command(name: str) -> bool:
    """Return whether `grade` has a command of this name."""
    context = click.get_current_context(silent=True)
    root = context.find_root() if context is not None else None
    return (
        root is not None
        and isinstance(root.command, click.Group)
        and name in root.command.list_commands(root)
    )


def _at_path(course: Course, name: str) -> list[str]:
    """Return the ids of the exercise with this file, or of the chapter with this folder."""
    parts = Path(name.removesuffix(".py")).parts
    # Inside the chapter's folder, a shell completes only the file's name.
    whole = ("", *Path(name.removesuffix(".py")).absolute().parts) if len(parts) < 2 else parts
    for exercise in course.exercises:
        if whole[-2:] == (exercise.chapter, exercise.id):
            return [exercise.id]
    chapter = parts[-1] if parts else ""
    return [exercise.id for exercise in course.exercises if exercise.chapter == chapter]


def open_workspace(course: Course, *, allow_empty: bool = False) -> Workspace:
    """Open the course's own folder; problems of the progress file are printed to stderr."""
    from grader.student.workspace import Workspace

    refuse_pack(course)
    workspace = Workspace(course, allow_empty=allow_empty)
    tell_notices(workspace)
    return workspace


def refuse_pack(course: Course) -> None:
    """Raise a usage error for a pack, which has no folder for a student's work."""
    if course.unpacked is None:
        return
    context = click.get_current_context()
    way = "change into that folder, and leave --course out"
    if any(parameter.name == "submission" for parameter in context.command.params):
        way = "name the files with --submission"
    raise click.UsageError(f"A pack has no folder for your work: {way}.", context)


def tell_notices(workspace: Workspace) -> None:
    """Print the notices about the progress file to stderr, once."""
    for notice in workspace.logbook.take_notices():
        tell(f"grade: {notice}")


def chosen_exercise(workspace: Workspace, name: str | None) -> Exercise:
    """Return the named exercise, or the next one that is not done."""
    if name is not None:
        return known_exercises(workspace.course, [name])[0]
    if (first_open := workspace.first_open()) is None:
        raise click.UsageError("Every exercise is done: name one.")
    return first_open


def disclosure(level: str | None) -> Disclosure | None:
    """Return the level of this name, or None for the course's own."""
    from grader.results import Disclosure

    return None if level is None else Disclosure(level)


def was_given(*names: str) -> bool:
    """Return whether the caller gave one of these options."""
    context = click.get_current_context()
    return any(context.get_parameter_source(n) is ParameterSource.COMMANDLINE for n in names)


def repeated(*names: str) -> str:
    """Return the options among these that the caller gave, as typed on a command line."""
    context = click.get_current_context()
    flags = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    values = {n: shlex.quote(str(context.params[n])) for n in names if was_given(n)}
    return "".join(f" {flags[name]} {value}" for name, value in values.items())


def login_name() -> str:
    """Return the caller's login name; a usage error if there is none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError) as error:
        raise click.UsageError(
            "You have no login name here: name yourself with --author."
        ) from error
