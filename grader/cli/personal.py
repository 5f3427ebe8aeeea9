"""`grade personal-data` and `grade erase`: hand over or erase the data about students."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.results import find_student
from grader.errors import SubmissionError
from grader.gradebook import Gradebook
from grader.gradebook.backup import BEFORE_RESTORE, Backup, backups_in
from grader.gradebook.database import FILE
from grader.gradebook.personal import beside, erase_everybody, everybody
from grader.gradebook.personal import erase as erase_student
from grader.gradebook.retention import backups_of, retention_of
from grader.text import clean, counted, listed


@click.command(cls=Command, name="personal-data")
@shared.results_argument
@click.argument("student")
@click.option(
    "-o", "--output", metavar="FILE", type=shared.FILE, required=True, help="The zip to write."
)
def personal_data(results: Path, student: str, output: Path) -> None:
    """Write everything that RESULTS keeps about STUDENT to a zip of readable files.

    STUDENT is an id, or a unique part of an id, name or email. The zip is for the student: verdicts show only
    as much of hidden tests as the course discloses. A server may run meanwhile. docs/privacy.md lists other
    places with data about the student.

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
@click.argument("student", required=False)
@click.option(
    "--expired", is_flag=True, help="Erase all students, once the policy's `keep` has passed."
)
@click.option(
    "--dry-run", is_flag=True, help="With --expired: list the students, and erase nothing."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def erase(results: Path, student: str | None, expired: bool, dry_run: bool, yes: bool) -> None:
    """Erase everything that RESULTS keeps about STUDENT. This cannot be undone.

    STUDENT is the whole id. Submissions, verdicts, corrections, requests, drafts and tokens are overwritten in
    the gradebook, and others' results stay. Stop a server first. RESULTS may also be a backup, or the folder
    with all backups of a server. Exports and reports do not change: the command names a server's backups and
    the files beside the gradebook, and docs/privacy.md has the others. If the student is still in the class
    list, the next grading adds the student again.

    With --expired, all students of RESULTS are erased, if the time `keep` in policy.toml has passed since the
    last submission.

    \b
    Examples:
      grade erase results ada
      grade erase /backups/course ada
      grade erase results --expired --dry-run
      grade erase results --expired
    """
    if (student is None) != expired or (dry_run and not expired):
        raise click.UsageError("Name a STUDENT, or --expired, with --dry-run if you like.")
    now = datetime.datetime.now(datetime.UTC)
    if student is None:
        _erase_expired(results, now, dry_run=dry_run, yes=yes)
    elif not (results / FILE).exists() and (found := backups_in(results)):
        _erase_in_backups([backup.path for backup in found], student, yes=yes)
    else:
        _erase_student(results, student, yes=yes)


def _erase_student(results: Path, student: str, *, yes: bool) -> None:
    # Open it to read first: opening it to write would create a gradebook in a folder without one.
    with Gradebook.open(results) as book:
        # A part of a name is not enough to erase somebody's data.
        known = {each.id for each in book.students()}
        found = student if student in known else find_student(book.students(), student).id
    if found != student:
        raise click.UsageError(f"Name the whole id: {clean(found)}.")
    with Gradebook.open_to_write(results) as book:
        # Ask while holding the lock, so that no server can interfere after the answer.
        if not yes:
            click.confirm(f"Erase everything about {clean(found)} from {results}?", abort=True)
        counts = erase_student(book, found)
        backups = backups_of(book)
    rows = ", ".join(f"{table} {count}" for table, count in sorted(counts.items()))
    told = f"rows of {rows}" if rows else "nothing was left"
    click.echo(f"Erased {clean(found)}: {told}.")
    _tell_beside(results)
    for copies in filter(None, (backups, backups_in(results / BEFORE_RESTORE))):
        click.echo(
            f"{_named(copies)} may still have {clean(found)}: "
            f"`grade erase {copies[0].path.parent} {clean(found)}` erases there, too."
        )
    click.echo(
        "Also look at the class list, policy.toml, comments in corrections.toml, backups, exports and reports."
    )


def _erase_in_backups(backups: Sequence[Path], student: str, *, yes: bool) -> None:
    """Erase a student in each of these backups; some of them may not have the student."""
    having = []
    for path in backups:
        with Gradebook.open(path) as book:
            if student in everybody(book):
                having.append(path)
    if not having:
        raise SubmissionError(
            f"No student in the {counted(len(backups), 'backup')} there has the id {student!r}."
        )
    names = listed([path.name for path in having])
    if not yes:
        click.confirm(f"Erase everything about {clean(student)} from {names}?", abort=True)
    for path in having:
        with Gradebook.open_to_write(path) as book:
            erase_student(book, student)
        click.echo(f"Erased {clean(student)}: {path}")
        _tell_beside(path)


def _erase_expired(results: Path, now: datetime.datetime, *, dry_run: bool, yes: bool) -> None:
    with Gradebook.open(results) as book:
        retention = retention_of(book)
        students, backups = everybody(book), backups_of(book)
    if retention is None:
        raise click.UsageError(
            f"It is not set how long {results} is kept: it has no submission, or its policy has no `keep`, "
            'such as keep = "2 years". A grading or a server reads the policy anew.'
        )
    when = (
        f"{retention.keep} after the last submission on {retention.last:%Y-%m-%d}, "
        f"until {retention.until:%Y-%m-%d}"
    )
    if not retention.has_passed(now):
        raise click.UsageError(f"{results} is kept for {when}: nothing was erased.")
    click.echo(f"{results} was kept for {when}. It has {counted(len(students), 'student')}:")
    click.echo(clean(", ".join(students), 100_000))
    if dry_run:
        return
    with Gradebook.open_to_write(results) as book:
        if not yes:
            click.confirm(f"Erase everything about all of them from {results}?", abort=True)
        count = erase_everybody(book)
    click.echo(f"Erased {counted(count, 'student')}.")
    _tell_beside(results)
    if backups:
        click.echo(f"{_named(backups)} still have them: delete these folders.")
    click.echo("Also look at the class list, policy.toml, other backups, exports and reports.")


def _named(backups: Sequence[Backup]) -> str:
    """Name backups: 14 backups in /backups (2026-11-16T021000Z to 2026-11-30T021000Z)."""
    first, last = backups[0].path, backups[-1].path
    names = first.name if first == last else f"{first.name} to {last.name}"
    return f"{counted(len(backups), 'backup')} in {first.parent} ({names})"


def _tell_beside(results: Path) -> None:
    """Name the files beside a gradebook that nothing was erased from."""
    if others := beside(results):
        names = ", ".join(path.name for path in others)
        click.echo(f"Not searched: {clean(names, 1000)}. Delete the data about the student there.")
