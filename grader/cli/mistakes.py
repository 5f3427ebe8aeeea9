"""`grade mistakes`: what many of a class do wrong that no sentence explains yet, and a sentence for it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from grader.cli.border import Command, tell_unfinished
from grader.cli.options import course_option, known_exercises, open_course, results_argument
from grader.cli.terminal.console import open_console
from grader.cli.terminal.groups import show_groups
from grader.gradebook import Gradebook, Keeper
from grader.gradebook.intake import refuse_other_course
from grader.gradebook.mistakes import difference, name_group, of_group, unnamed_groups
from grader.text import counted


@click.command(cls=Command)
@results_argument
@course_option
@click.option(
    "--exercise",
    "exercises",
    metavar="EXERCISE",
    multiple=True,
    help="Look at this exercise alone, or a chapter; may be repeated.",
)
@click.option(
    "--most",
    metavar="N",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Show so many groups, the largest first.",
)
@click.option(
    "--name",
    nargs=2,
    metavar="GROUP SENTENCE",
    help="Say in one sentence what this group does wrong: its students read it.",
)
def mistakes(
    results: Path,
    course_path: Path,
    exercises: tuple[str, ...],
    most: int,
    name: tuple[str, str] | None,
) -> None:
    """Group the failures of a class that no sentence explains: RESULTS is the folder of `grade batch`.

    Students whose tests saw the same made the same mistake, however different their code looks. Of each group
    one student's code is shown as its difference to the nearest right answer. With --name your sentence and
    that code become a wrong answer of the course, in tests/wrong. The group reads it at once, without being
    judged again, and so does every student who makes the mistake from then on. Points do not change.

    \b
    Examples:
      grade mistakes results/
      grade mistakes results/ --name glu-3f2a81 "The gate is on the first half: it belongs on the second."
    """
    course = open_course(course_path)
    chosen = (
        tuple(exercise.id for exercise in known_exercises(course, exercises)) if exercises else ()
    )

    with Gradebook.open(results) as book:
        refuse_other_course(book, course)
        tell_unfinished(book)
        groups = unnamed_groups(book.entries(), book.sources, chosen)
    if name is None:
        shown = groups[:most]
        parts = [difference(course, course.exercise(group.exercise), group) for group in shown]
        show_groups(open_console(sys.stdout), groups, list(zip(shown, parts, strict=True)))
        return
    group = of_group(groups, name[0])
    with Keeper.open(results) as keeper:
        path = name_group(keeper, course, group, name[1])
    click.echo(f"{course.name_of(path)}: written.")
    click.echo(f"{counted(len(group.students), 'student')} of {results} read it from now on.")
    click.echo(f"Next: `grade verify {group.exercise}` proves that the tests catch it.")
