"""`grade show`: one student's result."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.results import find_student, open_book
from grader.cli.terminal.console import open_console
from grader.cli.terminal.student_result import show_scorecard
from grader.errors import SubmissionError
from grader.gradebook.anonymous import pseudonyms_of


@click.command(cls=Command)
@shared.results_argument
@click.argument("student")
@shared.exercises_argument
@shared.assignment_of_results_option
def show(results: Path, student: str, exercises: tuple[str, ...], assignment: str | None) -> None:
    """Show the points of STUDENT, and the cost, reason and place of every test that did not pass.

    RESULTS is the folder that `grade batch` wrote. STUDENT is an id, a unique part of an id, name or
    email, or a pseudonym of `--anonymous`. The output is for staff: it has the messages of hidden tests.

    \b
    Examples:
      grade show results/ ann
      grade show results/ "Ann Lee" glu
      grade show results/ ann --assignment week1
    """
    with open_book(results, assignment) as book:
        students, pseudonym = book.students(), pseudonyms_of(book)
        ids = {pseudonym(listed.id): listed.id for listed in students}
        owner = find_student(students, ids.get(student, student))
        entry = book.entry_of(owner.id)
    if entry is None:
        raise SubmissionError(f"Nothing is graded here yet: `grade batch -o {results}` does.")
    graded = [exercise.name for exercise in entry.result.exercises]
    if unknown := [name for name in exercises if name not in graded]:
        raise SubmissionError(
            f"{unknown[0]} was not graded here. Graded exercises: {', '.join(graded)}."
        )
    show_scorecard(open_console(), entry, exercises)
