"""`grade policy`: the rules by which a class's attempts count."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command, tell, tell_unfinished
from grader.cli.results import find_student, open_book, refuse_ungraded
from grader.cli.terminal.console import open_console
from grader.cli.terminal.policy import points_of, show_effect, show_explanation, show_policy
from grader.gradebook import Gradebook, Keeper
from grader.gradebook.policy_file import PolicyError, policy_from, unknown_students


@click.command(cls=Command)
@shared.results_argument
@shared.exercises_argument
@click.option(
    "--file",
    "file",
    metavar="TOML",
    type=shared.EXISTING_FILE,
    help="Count by this policy from now on. An empty file has no rules.",
)
@click.option(
    "--explain",
    "student",
    metavar="STUDENT",
    help="Say of every exercise of this student what counts, and why.",
)
@click.option("--toml", is_flag=True, help="Print the policy as it was written.")
@shared.assignment_of_results_option
def policy(
    results: Path,
    exercises: tuple[str, ...],
    file: Path | None,
    student: str | None,
    toml: bool,
    assignment: str | None,
) -> None:
    """Show by which policy the attempts of a class count, or set another one.

    RESULTS is the folder that `grade batch` wrote. `grade batch` and `grade regrade` read a policy.toml
    that stands beside course.toml; with --file it is that file instead, until another one is named.
    docs/instructors.md has every key. No file is judged again by it: the points follow at once.

    \b
    Examples:
      grade policy results
      grade policy results --file week1.toml
      grade policy results --explain zoe
      grade policy results strides --explain zoe
    """
    if sum((file is not None, student is not None, toml)) > 1:
        raise click.UsageError("Only one of --file, --explain and --toml at a time.")
    if exercises and student is None:
        raise click.UsageError("EXERCISE is for --explain STUDENT.")
    if file is not None and assignment is not None:
        raise click.UsageError("--file is for all exercises of RESULTS: leave --assignment out.")
    if file is not None:
        _set(results, file)
    elif student is not None:
        _explain(results, student, exercises, assignment)
    else:
        _show(results, assignment, toml=toml)


def _show(results: Path, assignment: str | None, *, toml: bool) -> None:
    """Print the policy of a class in words, or as it was written."""
    with Gradebook.open(results, assignment) as book:
        text, rules, students = book.fact("policy"), book.policy, book.students()
        names, file = book.exercises, book.fact("policy_file")
    if toml:
        click.echo(text, nl=not text.endswith("\n"))
        return
    if not text.strip():
        click.echo(
            "There is no policy: of each exercise the newest attempt counts, with all of its points. "
            "--file names one; docs/instructors.md says what it may have."
        )
        return
    show_policy(open_console(), rules, names)
    if file:
        tell(f"From {file}, as --file or `grade batch --policy` named it.")
    for note in unknown_students(rules, students):
        tell(note)


def _set(results: Path, file: Path) -> None:
    """Count by the policy of a file from now on, and print whose points that changes."""
    with Gradebook.open(results) as book:
        chapters, students = book.chapters, book.students()
    text, rules = policy_from(file, chapters)
    for complaint in unknown_students(rules, students):
        raise PolicyError(f"{file}: {complaint}")
    console = open_console()
    with Keeper.open(results) as keeper:
        book = keeper.book
        before, names = points_of(book.entries()), book.names()
        keeper.set_policy(text, str(file.resolve()))
        show_policy(console, book.policy, list(chapters))
        effect = show_effect(console, before, points_of(book.entries()), names)
        tell_unfinished(book)
    if effect.waiting:
        tell("What may count by this policy and was never judged, `grade regrade` judges.")


def _explain(
    results: Path, student: str, exercises: tuple[str, ...], assignment: str | None
) -> None:
    with open_book(results, assignment) as book:
        owner = find_student(book.students(), student)
        refuse_ungraded(exercises, book)
        show_explanation(open_console(), book, owner, exercises)
