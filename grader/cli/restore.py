"""`grade restore`: replace a gradebook by a backup."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.gradebook.backup import backup_file
from grader.gradebook.backup import restore as restore_backup
from grader.text import counted


@click.command(cls=Command)
@click.argument("backup", metavar="BACKUP", type=shared.EXISTING)
@click.option(
    "-o",
    "--output",
    "results",
    metavar="RESULTS",
    required=True,
    type=shared.FOLDER,
    help="The folder of the gradebook to replace, created if missing.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def restore(backup: Path, results: Path, yes: bool) -> None:
    """Replace the gradebook in RESULTS with BACKUP.

    BACKUP is a folder that `grade serve --backups` made, or a file of `grade serve --backup`. Stop the server
    first. The backup is checked before anything changes, and a copy of the replaced gradebook stays in
    RESULTS/before-restore. If the command is interrupted, run it again.

    \b
    Example:
      grade restore /backups/course/2026-11-30T021000Z -o results
    """
    backup_file(backup, results)
    if not yes and any(results.glob("gradebook.sqlite*")):
        click.confirm(f"Replace the gradebook in {results} with {backup}?", abort=True)
    restored = restore_backup(backup, results, datetime.datetime.now(datetime.UTC))
    click.echo(f"Restored {counted(restored.students, 'student')}: {results}")
    if restored.keeps_corrections:
        click.echo(
            f"The corrections in {results} stay, since the backup has none: `grade adjust {results} --list` "
            "shows them."
        )
    if restored.before is not None:
        click.echo(f"A copy of the replaced gradebook: {restored.before}")
    click.echo(
        "Tokens and sessions are as they were then. Revoke again what was revoked since, and erase again "
        "students who were erased since."
    )
