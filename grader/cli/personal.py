"""`grade personal-data` and `grade erase`: hand over or erase the data about one student."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.results import find_student
from grader.gradebook import Gradebook
from grader.gradebook.personal import beside
from grader.gradebook.personal import erase as erase_student
from grader.text import clean, counted


@click.command(cls=Command, name="personal-data")
@shared.results_argument
@click.argument("student")
@click.option(
    "-o", "--output", metavar="FILE", type=shared.FILE, required=True, help="The zip to write."
)
def personal_data(results: Path, student: str, output: Path) -> None:
    """Write everything that RESULTS keeps about STUDENT to a zip of readable files.

    STUDENT is an id, or a unique part of an id, name or email. The zip is for the student: verdicts say as much
    of hidden tests as the course discloses. A server may run meanwhile. docs/privacy.md lists what is stored
    elsewhere.

    \b
    Example:
      grade personal-data results ada -o ada.zip
    """
    with Gradebook.open(results) as book:
        from grader.exports.personal import write_personal_data

        found = find_student(book.students(), student)
        count = write_personal_data(book, found, output)
    click.echo(f"{counted(count, 'file')} about {clean(found.id)}: {output}")


@click.command(cls=Command)
@shared.results_argument
@click.argument("student")
@click.option("--yes", is_flag=True, help="Do not ask.")
def erase(results: Path, student: str, yes: bool) -> None:
    """Erase everything that RESULTS keeps about STUDENT, which cannot be undone.

    STUDENT is the whole id. Submissions, verdicts, corrections, requests, drafts and tokens are overwritten in
    the gradebook, and others' results stay. Stop a server first. Backups, exports and reports are not
    changed: the command names those beside the gradebook, and docs/privacy.md lists the others. A student who
    is still in the class list is taken in again by the next grading.

    \b
    Example:
      grade erase results ada
    """
    # Opened first, because a gradebook would be made in a folder that has none.
    with Gradebook.open(results) as book:
        # A part of a name is enough to read, and too little to erase.
        known = {each.id for each in book.students()}
        found = student if student in known else find_student(book.students(), student).id
    if found != student:
        raise click.UsageError(f"Name the whole id: {clean(found)}.")
    with Gradebook.open_to_write(results) as book:
        # Ask while holding the lock, so that no server can interfere after the answer.
        if not yes:
            click.confirm(f"Erase everything about {clean(found)} from {results}?", abort=True)
        counts = erase_student(book, found)
    rows = ", ".join(f"{table} {count}" for table, count in sorted(counts.items()))
    told = f"rows of {rows}" if rows else "nothing was left"
    click.echo(f"Erased {clean(found)}: {told}.")
    if others := beside(results):
        names = ", ".join(path.name for path in others)
        click.echo(
            f"Not looked into: {clean(names, 1000)}. Delete there what is about the student."
        )
    click.echo(
        "Also look at the class list, policy.toml, comments in corrections.toml, backups, exports and reports."
    )
