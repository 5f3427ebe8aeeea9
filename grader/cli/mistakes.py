"""`grade mistakes`: find mistakes without a sentence that many of a class make."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.results import open_book
from grader.cli.terminal.console import open_console
from grader.cli.terminal.groups import show_groups
from grader.gradebook import Gradebook
from grader.gradebook.mistakes import difference, name_group, of_group, unnamed_groups
from grader.text import counted


@click.command(cls=Command)
@shared.results_argument
@shared.course_option
@click.option(
    "--exercise",
    "exercises",
    metavar="EXERCISE",
    multiple=True,
    help="Only look at this exercise or chapter; may be repeated.",
)
@click.option(
    "--most",
    metavar="N",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Show N groups, the largest first.",
)
@click.option(
    "--name",
    nargs=2,
    metavar="GROUP SENTENCE",
    help="Explain this group's mistake in one sentence, which its students read.",
)
def mistakes(
    results: Path,
    course_path: Path,
    exercises: tuple[str, ...],
    most: int,
    name: tuple[str, str] | None,
) -> None:
    """Group failures that no sentence explains: RESULTS is the folder that `grade batch` wrote.

    Students with the same answers to the tests made the same mistake, however different their code looks. For
    each group, shows one student's code as a difference to the nearest right answer. With --name, your sentence
    and that code become a wrong answer of the course, in tests/wrong. The group reads the sentence at once,
    without being judged again, and so do later students who make the mistake. Points do not change.

    \b
    Examples:
      grade mistakes results/
      grade mistakes results/ --name glu-3f2a81 "The gate is on the first half: it belongs on the second."
    """
    course = shared.open_course(course_path)
    chosen = (
        tuple(exercise.id for exercise in shared.known_exercises(course, exercises))
        if exercises
        else ()
    )

    with open_book(results, course=course) as book:
        groups = unnamed_groups(book.entries(), book.sources, chosen)
    if name is None:
        shown = groups[:most]
        parts = [difference(course, course.exercise(group.exercise), group) for group in shown]
        show_groups(open_console(), groups, list(zip(shown, parts, strict=True)))
        return
    group = of_group(groups, name[0])
    with Gradebook.open_to_write(results) as book:
        path = name_group(book, course, group, name[1])
    click.echo(f"{course.name_of(path)}: written.")
    click.echo(f"{counted(len(group.students), 'student')} of {results} read it from now on.")
    click.echo(f"Next: `grade verify {group.exercise}` proves that the tests catch it.")
