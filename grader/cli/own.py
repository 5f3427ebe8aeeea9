"""What the commands about a student's own folder share: the folder, the exercise that is meant, options."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from grader.cli.options import known_exercises

if TYPE_CHECKING:
    from grader.course.manifest import Course, Exercise
    from grader.student.workspace import Workspace

__all__ = ["chosen_exercise", "given", "open_workspace", "refuse_pack", "repeated", "tell_notices"]

_LONGEST_NOTICE = 2000


def open_workspace(course: Course) -> Workspace:
    """The course's own folder; what is wrong with the file of the progress is said on stderr."""
    from grader.student.workspace import Workspace

    refuse_pack(course)
    workspace = Workspace(course)
    tell_notices(workspace)
    return workspace


def refuse_pack(course: Course) -> None:
    """Say that a pack, which is unpacked for a moment, holds nothing of the student's own."""
    if course.unpacked is None:
        return
    context = click.get_current_context()
    way = "change into that folder, and leave --course out"
    if any(each.name == "submission" for each in context.command.params):
        way = "name the files with --submission"
    raise click.UsageError(f"A pack has no folder of your own in it: {way}.", context)


def tell_notices(workspace: Workspace) -> None:
    """Say on stderr, once, what the student has to know about the file of the progress."""
    for notice in workspace.logbook.take_notices():
        from grader.text import clean

        click.echo(f"grade: {clean(notice, _LONGEST_NOTICE)}", err=True)


def chosen_exercise(workspace: Workspace, name: str | None) -> Exercise:
    """The named exercise, or the first one that is not done."""
    if name is not None:
        return known_exercises(workspace.course, [name])[0]
    if (found := workspace.first_open()) is None:
        raise click.UsageError(
            "Every exercise is done: name the one that you mean.", click.get_current_context()
        )
    return found


def given(*names: str) -> bool:
    """Whether the caller gave one of these options."""
    context = click.get_current_context()
    return any(context.get_parameter_source(n) is ParameterSource.COMMANDLINE for n in names)


def repeated(*names: str) -> str:
    """The options among these that the caller gave, as they are typed again."""
    context = click.get_current_context()
    flags = {each.name: each.opts[0] for each in context.command.params}
    values = {n: shlex.quote(str(context.params[n])) for n in names if given(n)}
    return "".join(f" {flags[name]} {value}" for name, value in values.items())
