"""What several commands take from the command line: the course, and exercises of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.errors import CourseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grader.course.manifest import Course, Exercise

__all__ = ["LEVELS", "course_option", "exercises_argument", "known_exercises", "open_course"]

# As in grader.sandbox.walls.levels, which would have to be imported for every `grade --help`.
LEVELS = ("none", "limits", "kernel", "namespaces", "full")

course_option = click.option(
    "--course",
    "course_path",
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    default=Path(),
    help="The course's folder, or a pack of it (see `grade pack`). By default it is looked for from "
    "the current folder upward.",
)
exercises_argument = click.argument("exercises", nargs=-1, metavar="[EXERCISE]...")


def open_course(path: Path) -> Course:
    """The course at or above `path`, or in that pack; that there is none is a matter of usage."""
    from grader.course.manifest import find_course, is_pack, load_course

    if is_pack(path):
        return load_course(path)
    try:
        manifest = find_course(path)
    except CourseError as error:
        raise click.UsageError(str(error), click.get_current_context()) from error
    return load_course(manifest)


def known_exercises(course: Course, names: Sequence[str]) -> tuple[Exercise, ...]:
    """The named exercises in the order of the course, all if none is named; else a usage error."""
    known = [exercise.id for exercise in course.exercises]
    for name in names:
        if name not in known:
            raise click.UsageError(_unknown(course, name, known), click.get_current_context())
    return course.select(names)


def _unknown(course: Course, name: str, known: list[str]) -> str:
    # Imported here: only who mistypes pays for it.
    from difflib import get_close_matches

    # A file is a likely slip for the exercise in it.
    if close := get_close_matches(Path(name).stem, known, n=1):
        return f"There is no exercise {name!r}. Did you mean {close[0]!r}?"
    return f"There is no exercise {name!r} in {course.title}. There are: {', '.join(known)}."
