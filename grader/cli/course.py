"""`grade list`, `explain`, `hint`, `solution`, `reset` and `schema`: answers without judging."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from grader.cli import options as shared
from grader.cli.border import Command

if TYPE_CHECKING:
    from pathlib import Path

    from grader.course.manifest import Exercise
    from grader.student.workspace import Workspace


@click.command("list", cls=Command)
@shared.course_option
@shared.assignment_option
def list_exercises(course_path: Path, assignment: str | None) -> None:
    """Show the exercises and your progress: state, points, minutes, difficulty.

    \b
    The state of your file:
      done            all of its tests passed, and nothing changed since
      edited since    it was done before you changed the file
      tests changed   it was done before the course's tests changed
      begun           you have written something; `grade run` judges it
      open            still the stub
    or the file is missing, unreadable, or not valid Python. Points are shown
    if the current file was judged. The assignments of the course are below,
    with their due times.

    \b
    Examples:
      grade list
      grade list --assignment week3
    """
    course = shared.open_course(course_path, assignment)
    from grader.cli.terminal.console import open_console
    from grader.cli.terminal.course import show_exercises

    show_exercises(open_console(sys.stdout), shared.open_workspace(course))


@click.command(cls=Command)
@click.argument("exercise", required=False)
@shared.course_option
def explain(exercise: str | None, course_path: Path) -> None:
    """Explain an exercise, its checks and its reading; or give a guide through a chapter.

    Without a name, explains the first exercise that is not done.

    \b
    Examples:
      grade explain glu
      grade explain autograd
    """
    course = shared.open_course(course_path)
    workspace = shared.open_workspace(course)
    from grader.cli.terminal.console import open_console
    from grader.cli.terminal.course import show_chapter, show_explanation

    names = {e.id for e in course.exercises}
    if exercise in course.chapters and exercise not in names:
        show_chapter(open_console(sys.stdout), workspace, exercise)
        return
    chosen = shared.chosen_exercise(workspace, exercise)
    show_explanation(open_console(sys.stdout), workspace, chosen)


@click.command(cls=Command)
@click.argument("exercise", required=False)
@click.option(
    "-n",
    "--number",
    type=click.IntRange(1),
    help="The hint to show; by default the next one that you have not seen.",
)
@shared.course_option
def hint(exercise: str | None, number: int | None, course_path: Path) -> None:
    """Show the next hint that you have not seen; after the last one, the first again.

    Hints go from gentle to nearly the answer. You can also read them after you have passed. Without a
    name, shows a hint for the first exercise that is not done. The key h of `grade watch` shows the same
    hints.

    \b
    Examples:
      grade hint glu          the next hint
      grade hint glu -n 1     the first hint
    """
    course = shared.open_course(course_path)
    workspace = shared.open_workspace(course)
    logbook, chosen = workspace.logbook, shared.chosen_exercise(workspace, exercise)
    count = len(chosen.hints)
    if number is not None and number > count:
        raise click.UsageError(f"{chosen.id} has {count} hints, so there is no number {number}.")
    shown = number or logbook.next_hint(chosen)
    from grader.cli.terminal.console import open_console
    from grader.cli.terminal.course import show_hint

    logbook.see_hint(chosen, shown)
    more = _more(workspace, chosen, shared.repeated("course_path"))
    show_hint(open_console(sys.stdout), chosen, shown, more)
    shared.tell_notices(workspace)


def _more(workspace: Workspace, exercise: Exercise, options: str) -> str:
    """Return the sentence below a hint: how to see the next one, or the options after the last one."""
    logbook, command = workspace.logbook, f"grade hint {exercise.id}{options}"
    if logbook.unseen_hints(exercise):
        return f"For the next one: `{command}`"
    following = logbook.next_hint(exercise)
    again = f"You have seen all {len(exercise.hints)}: `{command}` shows hint {following} again"
    if workspace.course.solution_source(exercise) is not None:
        again += f", `grade solution {exercise.id}{options} --give-up` a whole answer"
    return f"{again}."


@click.command(cls=Command)
@click.argument("exercise")
@click.option("--give-up", is_flag=True, help="Show it before you have passed.")
@shared.course_option
def solution(exercise: str, give_up: bool, course_path: Path) -> None:
    """Show the course's own answer, once you have passed.

    It is one right answer of many, and yours may well be better.

    \b
    Examples:
      grade solution glu              after all tests of glu passed once
      grade solution glu --give-up    before that
    """
    course = shared.open_course(course_path)
    (chosen,) = shared.known_exercises(course, [exercise])
    source = course.solution_source(chosen)
    from grader.errors import SubmissionError

    if source is None:
        raise SubmissionError(
            f"This copy of the course has no solutions: ask your instructor. `grade hint "
            f"{chosen.id}` helps meanwhile."
        )
    if shared.open_workspace(course).logbook.page(chosen).passed is None and not give_up:
        raise SubmissionError(
            f"{chosen.id} was not passed yet. `grade hint {chosen.id}` helps; "
            f"`grade solution {chosen.id} --give-up` shows the answer anyway."
        )
    from grader.cli.terminal.console import open_console
    from grader.cli.terminal.course import show_source
    from grader.course.stub import without_markers

    text = without_markers(source.decode())
    show_source(open_console(sys.stdout), course.solution(chosen), text)


@click.command(cls=Command)
@click.argument("exercise")
@shared.course_option
def reset(exercise: str, course_path: Path) -> None:
    """Restore the stub of an exercise. Your file is kept, and its new name is printed.

    \b
    Example:
      grade reset glu
    """
    course = shared.open_course(course_path)
    shared.refuse_pack(course)
    (chosen,) = shared.known_exercises(course, [exercise])
    from grader.student.next_step import shown_path
    from grader.student.workspace import reset_exercise

    done = reset_exercise(course, chosen)
    file = shown_path(done.file)
    if done.backup is not None:
        click.echo(f"Your file is kept: {shown_path(done.backup)}")
        click.echo(f"{file} is the stub again.")
    elif done.written:
        click.echo(f"{file} was missing: the stub is there again.")
    else:
        click.echo(f"{file} is still the stub: nothing to reset.")
    for beside in done.given:
        if beside.backup is not None:
            click.echo(f"Your {beside.file.name} is kept: {shown_path(beside.backup)}")
        click.echo(f"{shown_path(beside.file)} is the course's again.")


@click.command(cls=Command)
def schema() -> None:
    """Print the JSON Schema of results.

    \b
    Example:
      grade schema > result.schema.json
    """
    from grader.results import schema_json

    click.echo(schema_json(), nl=False)
