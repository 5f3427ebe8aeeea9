"""`grade mark`: points by a person, file by file, with one key for each item."""

from __future__ import annotations

import enum
from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command, tell, tell_unfinished
from grader.cli.marking import End, Shown, ask, refuse_without_terminal, show
from grader.cli.on_server import (
    keep_remarks,
    next_to_mark,
    signed_in,
)
from grader.gradebook import Gradebook, marking
from grader.gradebook.anonymous import AnonymousBook, pseudonyms_of
from grader.gradebook.facts import Remarks
from grader.gradebook.refusals import refuse_other_course
from grader.serve.messages import Do, FileForMarking, Marking
from grader.student.client import ChangedError, Server
from grader.text import clean, in_points, listed

_LONGEST = 1000
# Options that need a gradebook in a folder.
_NOT_ON_SERVER = ("course_path", "rubric", "author")


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="[RESULTS] EXERCISE")
@shared.server_option
@shared.course_option
@click.option(
    "--rubric",
    metavar="TOML",
    type=shared.FILE,
    help="The items. By default tests/rubrics/CHAPTER/EXERCISE.toml of the course.",
)
@click.option("--author", metavar="NAME", default="", help="Who marks; by default your login name.")
@click.option(
    "--again",
    is_flag=True,
    help="Also show marked files; a new mark replaces the old.",
)
@shared.anonymous_option
def mark(
    words: tuple[str, ...],
    address: str | None,
    course_path: Path,
    rubric: Path | None,
    author: str,
    again: bool,
    anonymous: bool,
) -> None:
    """Mark the files of an exercise one after another by a rubric.

    Press an item's key to give it, and again to take it back; c to write a comment, n to keep
    the mark and go on, s to skip the file, q to stop. Each answer is saved before the next key: a file
    left without n is shown again, with its answers. A mark is a correction in the gradebook. Every output
    shows it beside the judge's points, and it survives a regrade. Marked files are not shown again. All
    members of a team with one file get the mark. On a server, each file is with one person at a time, in the
    page and here.

    \b
    Examples:
      grade mark results glu
      grade mark results glu --rubric style.toml --anonymous
      grade mark --server https://grade.example.org glu
    """
    if address is not None:
        if len(words) != 1:
            raise click.UsageError("With --server, name the EXERCISE, and no RESULTS.")
        for option in filter(shared.was_given, _NOT_ON_SERVER):
            flag = option.removesuffix("_path")
            raise click.UsageError(
                f"--{flag} does not go with --server, which has the course and knows you by your token."
            )
        server = signed_in(address)
        refuse_without_terminal()
        _mark_on_server(server, words[0], again=again, anonymous=anonymous)
        return
    if len(words) != 2:
        raise click.UsageError(
            "Name RESULTS, the folder that `grade batch` wrote, and an EXERCISE."
        )
    results = shared.EXISTING_FOLDER.convert(words[0], None, click.get_current_context())
    course = shared.open_course(course_path)
    (chosen,) = shared.known_exercises(course, [words[1]])

    read = marking.read_rubric(rubric or marking.rubric_of(course, chosen), chosen.points)
    by_key = {item.key: item for item in read.item}
    author = author.strip() or shared.login_name()
    # Open it to read first: opening it to write would create a gradebook in a folder without one.
    with Gradebook.open(results) as book:
        refuse_other_course(book, course)
    with Gradebook.open_to_write(results) as book:
        refuse_without_terminal()
        tell_unfinished(AnonymousBook(book) if anonymous else book)
        shown = pseudonyms_of(book) if anonymous else str
        every = sorted(marking.files(book, chosen.id), key=lambda each: shown(each.students[0]))
        corrections = book.corrections()
        waiting = [f for f in every if again or marking.is_waiting(book, corrections, f)]
        marked = 0
        for place, file in enumerate(waiting, 1):

            def keep(remarks: Remarks, file: marking.FileToMark = file) -> None:
                marking.keep_draft(book, file, remarks)

            names = ", ".join(map(shown, file.students))
            result, source = file.result, file.source.decode("utf-8", "replace")
            head = f"{names}  {place} of {len(waiting)}"
            page = Shown(head, result.score, result.max_score, source)
            show(page, read.item)
            decided = ask(page, read.item, marking.remarks_of(book, file), keep)
            if decided is End.STOP:
                break
            if isinstance(decided, Remarks):
                items = [by_key[key] for key in decided.keys]
                marking.keep_mark(book, file, items, decided.comments, author, beyond=read.beyond)
                marked += 1
    left = len(waiting) - marked
    click.echo(f"{marked} marked, {left} of {len(every)} left.")


def _mark_on_server(server: Server, exercise: str, *, again: bool, anonymous: bool) -> None:
    """Mark the files of an exercise on a running server, without the files that other people have."""
    marked, after, shown = 0, "", set[str]()
    while True:
        now = next_to_mark(server, exercise, after=after, again=again, anonymous=anonymous)
        if now.file is None:
            if now.others:
                tell(f"Others have the files that are left: {listed(now.others)}.")
            break
        after = now.file.file
        if after in shown:
            # All files were shown, and skipped ones come again: leave this one to others.
            keep_remarks(server, exercise, now.file, "stop", now.file.keys, now.file.comments)
            break
        shown.add(after)
        left = _mark_file(server, exercise, now, now.file)
        if left is _Left.CHANGED:
            # Show it again as it is now, unless somebody else has it.
            shown.discard(after)
        marked += left is _Left.MARKED
        if left is _Left.STOPPED:
            break
    click.echo(f"{marked} marked, {now.waiting} of {now.files} left.")


class _Left(enum.Enum):
    """How a file on a server was left; it is CHANGED if somebody else took it or changed something."""

    MARKED = enum.auto()
    SKIPPED = enum.auto()
    STOPPED = enum.auto()
    CHANGED = enum.auto()


def _mark_file(server: Server, exercise: str, now: Marking, file: FileForMarking) -> _Left:
    """Ask about a file, and return how it was left; prints a note if it was changed."""
    remarks = Remarks(file.keys, file.comments)

    def keep(given: Remarks) -> None:
        nonlocal file, remarks
        file = keep_remarks(server, exercise, file, "draft", given.keys, given.comments)
        remarks = given

    head = f"{file.name or file.student or file.file}  {now.waiting} of {now.files} left"
    page = Shown(head, file.score, file.max_score, file.source)
    show(page, now.items)
    for mark in file.marks:
        words = f"  Marked by {mark.author}: {in_points(mark.points)}. {mark.reason}"
        click.echo(clean(words, _LONGEST))
    try:
        decided = ask(page, now.items, remarks, keep)
        do: Do
        if isinstance(decided, Remarks):
            do, left, remarks = "next", _Left.MARKED, decided
        elif decided is End.SKIP:
            do, left = "skip", _Left.SKIPPED
        else:
            do, left = "stop", _Left.STOPPED
        keep_remarks(server, exercise, file, do, remarks.keys, remarks.comments)
    except ChangedError as changed:
        tell(str(changed))
        return _Left.CHANGED
    return left
