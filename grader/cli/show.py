"""`grade show`: one student's result, to be explained to the student."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from grader.cli.border import Command, tell_unfinished
from grader.cli.options import exercises_argument, results_argument
from grader.cli.terminal.console import open_console
from grader.cli.terminal.student_result import find_student, show_scorecard
from grader.errors import SubmissionError
from grader.gradebook import Gradebook
from grader.gradebook.anonymous import Pseudonyms


@click.command(cls=Command)
@results_argument
@click.argument("student")
@exercises_argument
def show(results: Path, student: str, exercises: tuple[str, ...]) -> None:
    """Show what STUDENT earned, and of every test that did not pass what it cost, why, and where.

    RESULTS is the folder that `grade batch` wrote. STUDENT is an id, or a part of an id, name or
    email that only one has, or a pseudonym of `--anonymous`. What is shown is for staff: it has the
    messages of hidden tests.

    \b
    Examples:
      grade show results/ ann
      grade show results/ "Ann Lee" glu
    """

    with Gradebook.open(results) as book:
        tell_unfinished(book)
        students, pseudonyms = book.students(), Pseudonyms.kept_in(book)
        ids = {pseudonyms.of(each.id): each.id for each in students}
        owner = find_student(students, ids.get(student, student))
        entry = book.entry_of(owner.id)
    if entry is None:
        raise SubmissionError(f"Nothing is graded here yet: `grade batch -o {results}` does.")
    graded = [exercise.name for exercise in entry.result.exercises]
    if unknown := [name for name in exercises if name not in graded]:
        raise SubmissionError(f"{unknown[0]} was not graded here; there is {', '.join(graded)}.")
    show_scorecard(open_console(sys.stdout), entry, exercises)
