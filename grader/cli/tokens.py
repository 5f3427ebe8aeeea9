"""`grade tokens`: the tokens with which people sign in to a server."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.memory import remembered
from grader.errors import not_written
from grader.exports.table import Table
from grader.gradebook import Gradebook, sessions
from grader.gradebook.refusals import refuse_other_roster
from grader.gradebook.times import moment
from grader.gradebook.tokens import (
    STAFF,
    Role,
    changing_tokens,
    held_tokens,
    holders,
    make_token,
    revoke_tokens,
)
from grader.results import StudentInfo
from grader.submissions import read_roster
from grader.submissions.roster import is_in_group, section_names
from grader.text import clean, counted, listed, utc


@click.command(cls=Command)
@click.argument("results", metavar="RESULTS", type=shared.FOLDER)
@shared.roster_option
@click.option(
    "-o",
    "--output",
    "output",
    metavar="CSV",
    type=shared.FILE,
    help="Write the new tokens to a CSV for a mail merge, which only you can read.",
)
@click.option(
    "--address",
    metavar="URL",
    default="",
    help="The address of the server, for a column of the CSV.",
)
@click.option("--replace", metavar="STUDENT", help="Make a new token, and revoke the old one.")
@click.option("--revoke", metavar="STUDENT", help="Revoke a student's token, and end sessions.")
@click.option("--staff", metavar="NAME", help="Make a token for a member of staff, and print it.")
@click.option(
    "--role",
    type=click.Choice([role.word for role in STAFF]),
    help="With --staff: the role of the token, by default instructor.",
)
@click.option(
    "--section",
    "sections",
    multiple=True,
    metavar="SECTION",
    help="With --role assistant: a section of the class list; may be repeated.",
)
@click.option("--revoke-staff", metavar="NAME", help="Revoke a token of staff, and end sessions.")
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="List who has a token, and since when; tokens are not shown.",
)
def tokens(
    results: Path,
    roster_file: Path | None,
    output: Path | None,
    address: str,
    replace: str | None,
    revoke: str | None,
    staff: str | None,
    role: str | None,
    sections: tuple[str, ...],
    revoke_staff: str | None,
    listing: bool,
) -> None:
    """Make the tokens with which students and staff sign in at `grade serve`.

    A token is shown only here, and kept as a hash. --roster makes tokens for students without one; run it again
    when somebody joins. A running server notices changes at once. An assistant marks and answers students of
    the given sections and sees no others; an observer reads the class and changes nothing.

    \b
    Examples:
      grade tokens results --roster class.csv -o tokens.csv
      grade tokens results --staff "Prof. Doe"
      grade tokens results --staff "Kim Lee" --role assistant --section A --section B
      grade tokens results --replace zoe
      grade tokens results --revoke zoe
      grade tokens results --list
    """
    named = [option is not None for option in (roster_file, replace, revoke, staff, revoke_staff)]
    if sum([*named, listing]) != 1:
        raise click.UsageError(
            "Name one of --roster, --replace, --revoke, --staff, --revoke-staff, --list."
        )
    if (roster_file is None) != (output is None):
        raise click.UsageError("--roster and -o go together: the tokens are written to the CSV.")

    _refuse_other_roles(staff, role, sections)
    if listing:
        _list_tokens(results)
        return

    students = read_roster(roster_file).students if roster_file is not None else ()
    refuse_other_roster(remembered(results).students, students, str(results))
    with changing_tokens(results) as book:
        now = time.time()
        sessions.prepare(book)
        if roster_file is not None and output is not None:
            _make_for_class(book, students, output, address, now)
        elif staff is not None:
            chosen = Role[(role or Role.INSTRUCTOR.word).upper()]
            click.echo(make_token(book, chosen, staff, now, sections))
            _tell_empty_sections(book.students(), sections)
        elif revoke_staff is not None:
            _revoke(book, Role.INSTRUCTOR, revoke_staff, now)
        elif revoke is not None:
            _revoke(book, Role.STUDENT, revoke, now)
        elif replace is not None:
            if replace not in holders(book, Role.STUDENT):
                raise click.UsageError(f"{replace!r} has no token; --roster makes one.")
            click.echo(make_token(book, Role.STUDENT, replace, now))


def _make_for_class(
    book: Gradebook, students: Iterable[StudentInfo], output: Path, address: str, now: float
) -> None:
    """Make tokens for students without one, and write them to a CSV."""
    have = holders(book, Role.STUDENT)
    made = [
        (student, make_token(book, Role.STUDENT, student.id, now))
        for student in students
        if student.id not in have
    ]
    # Write them within the transaction: if that fails, no token has been made.
    _write_tokens(output, made, address)
    click.echo(f"{counted(len(made), 'new token')}, {len(have)} existed: {output}")


def _refuse_other_roles(staff: str | None, role: str | None, sections: tuple[str, ...]) -> None:
    """Raise a usage error for a role or sections that do not fit together."""
    if staff is None and (role or sections):
        raise click.UsageError("--role and --section are for --staff NAME.")
    if staff is not None and not staff.strip():
        raise click.UsageError(
            "--staff needs a name: it is the author of what this person changes."
        )
    is_assistant = role == Role.ASSISTANT.word
    if is_assistant and not sections:
        raise click.UsageError("Name the sections of the assistant: --section A.")
    if sections and not is_assistant:
        raise click.UsageError(
            "--section is for --role assistant; other roles have the whole class."
        )
    if not all(section.strip() for section in sections):
        raise click.UsageError("--section is the name of a section in the class list, such as A.")


def _tell_empty_sections(students: Iterable[StudentInfo], sections: Iterable[str]) -> None:
    """Print a note on sections without a student so far, which may be mistyped."""
    known = list(students)
    empty = [s for s in sections if not any(is_in_group(each.section, s) for each in known)]
    if known and empty:
        there = section_names(known)
        note = f"No student is in section {listed(empty)} so far; "
        note += (
            f"the class has: {listed(there)}."
            if there
            else (
                "nobody in the class has a section. Sections come from a column `section` of the --roster "
                "of `grade serve` or `grade batch`."
            )
        )
        click.echo(clean(note, 1000), err=True)


def _list_tokens(results: Path) -> None:
    """Print who has a token, staff first: the role, the name, since when, and the sections."""
    with Gradebook.open(results) as book:
        held = held_tokens(book)
        zone = book.policy.rules.timezone
    for holder, made_at in held:
        of = f" (section {', '.join(holder.sections)})" if holder.sections else ""
        since = moment(utc(made_at), zone)
        click.echo(f"{holder.role.word:<10}  since {since}  {clean(holder.name + of, 1000)}")
    if not held:
        click.echo(f"Nobody has a token in {results}.")


def _revoke(book: Gradebook, role: Role, name: str, now: float) -> None:
    """Revoke a token, and end the sessions of its holder; raises UsageError if there are none."""
    tokens = revoke_tokens(book, role, name, now)
    ended = sessions.end_sessions(book, role, name, now)
    if not tokens and not ended:
        raise click.UsageError(f"{name!r} has no token.")
    if tokens:
        click.echo(f"The token of {name} is revoked.")
    if ended:
        click.echo(f"{name} is signed out everywhere.")


def _write_tokens(path: Path, made: Iterable[tuple[StudentInfo, str]], address: str) -> None:
    """Write the tokens of a class to a new CSV that only its owner can read."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            table = Table(out)
            table.row(("id", "name", "email", "token", "address"))
            for student, token in made:
                table.row((student.id, student.name, student.email, token, address))
    except FileExistsError as error:
        raise click.UsageError(f"{path} already exists: name a new file.") from error
    except OSError as error:
        raise not_written(path, error) from error
