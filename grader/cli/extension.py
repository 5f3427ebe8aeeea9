"""`grade adjust --until`: more time for a student, in a gradebook or on a running server."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from grader.cli.on_server import extend_on, extensions_on
from grader.cli.results import named_student
from grader.cli.terminal.console import called
from grader.errors import SubmissionError
from grader.gradebook import Gradebook
from grader.gradebook.corrections import GivenExtension
from grader.gradebook.extending import (
    exams_among,
    exercises_named,
    extension_words,
    new_extension,
)
from grader.student.client import Server
from grader.submissions.times import read_time
from grader.text import clean, listed, number

_LONGEST = 1000


def until_of(text: str) -> datetime.datetime:
    """Read the value of --until; raises a usage error."""
    try:
        return read_time(text)
    except ValueError as error:
        raise click.UsageError(f"--until: {error}") from error


def extend_in_book(
    book: Gradebook, names: tuple[str, ...], until: datetime.datetime, reason: str, author: str
) -> None:
    """Give a student more time for an exercise, an assignment or all exercises, and print the effect."""
    student = named_student(book.students(), names[0])
    exercises = exercises_named(book, _name(names))
    if not _name(names):
        _warn(exams_among(book, exercises))
    extension = new_extension(book, student, exercises, until=until, reason=reason, author=author)
    _show_change(book, extension, lambda: book.extend(extension))


def take_extension_back(book: Gradebook, place: int) -> None:
    """Remove an extension, by its place from 0 in the file, and print the effect."""
    extension = book.extensions()[place]
    _show_change(book, extension, lambda: book.extend(removing=(place,)), undone=True)


def extend_on_server(
    server: Server, names: tuple[str, ...], until: datetime.datetime, reason: str
) -> None:
    """Give a student more time on a running server, and print the effect."""
    before = extensions_on(server, names[0])
    if not _name(names):
        _warn(before.exams)
    after = extend_on(server, before, _name(names), until, reason)
    who = called(after.student, {after.student: after.name} if after.name else {})
    for extension in after.extensions[len(before.extensions) :]:
        click.echo(clean(f"{who}: more time {extension.words}", _LONGEST))


def _warn(exams: Sequence[str]) -> None:
    """Say that everything includes these exams, and ask a person in a terminal whether to go on."""
    if not exams:
        return
    are = "is an exam" if len(exams) == 1 else "are exams"
    note = f"This is also extra time in {clean(listed(exams), _LONGEST)}, which {are}."
    click.echo(f"{note} To leave it out, name an exercise or an assignment.", err=True)
    if sys.stdin.isatty():
        click.confirm("Give more time for everything?", abort=True, err=True)


def _name(names: tuple[str, ...]) -> str:
    """Return the exercise or assignment of the command line, empty for none."""
    # A shell completes the path of the file, chapter/exercise.py.
    return Path(names[1].removesuffix(".py")).name if len(names) > 1 else ""


def _show_change(
    book: Gradebook,
    extension: GivenExtension,
    change: Callable[[], object],
    *,
    undone: bool = False,
) -> None:
    """Make a change, and print the student's total before and afterwards."""
    student = extension.student

    def total() -> float:
        entry = book.entry_of(student)
        if entry is None:
            raise SubmissionError(f"There is no student {student!r} here any more.")
        return entry.result.score

    before = total()
    change()
    words = f"{'taken back: ' if undone else ''}more time {extension_words(extension, book.policy.zone)}"
    click.echo(clean(f"{called(student, book.names())}: {words}", _LONGEST))
    after = total()
    effect = "as before, " if after == before else f"{number(before)} to "
    click.echo(f"{effect}{number(after)} points")
