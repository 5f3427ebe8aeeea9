"""`grade mark`: points by a person, file by file, with one key for each item."""

from __future__ import annotations

import enum
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command, tell_unfinished
from grader.gradebook import Gradebook, marking
from grader.gradebook.anonymous import pseudonyms_of
from grader.gradebook.corrections import on_one_line
from grader.gradebook.facts import Draft
from grader.gradebook.intake import refuse_other_course
from grader.text import clean, counted, number

_LONGEST_LINE = 300


@click.command(cls=Command)
@shared.results_argument
@click.argument("exercise")
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
    results: Path,
    exercise: str,
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
    members of a team with one file get the mark.

    \b
    Examples:
      grade mark results glu
      grade mark results glu --rubric style.toml --anonymous
    """
    course = shared.open_course(course_path)
    (chosen,) = shared.known_exercises(course, [exercise])

    read = marking.read_rubric(rubric or marking.rubric_of(course, chosen), chosen.points)
    items = read.item
    author = author.strip() or shared.login_name()
    # Opened first, because a keeper would create a gradebook in a folder that has none.
    with Gradebook.open(results) as book:
        refuse_other_course(book, course)
    with Gradebook.open_to_write(results) as book:
        tell_unfinished(book)
        shown = pseudonyms_of(book) if anonymous else str
        every = sorted(marking.answers(book, chosen.id), key=lambda each: shown(each.students[0]))
        corrections = book.corrections()
        waiting = [
            answer
            for answer in every
            if again or marking.is_begun(book, answer) or not marking.is_marked(corrections, answer)
        ]
        marked = 0
        for number, answer in enumerate(waiting, 1):
            names = ", ".join(map(shown, answer.students))
            _show(answer, f"{names}  {number} of {len(waiting)}", items)
            decided = _ask(book, answer, items)
            if decided is _End.STOP:
                break
            if not isinstance(decided, _End):
                marking.keep_mark(book, answer, *decided, author, beyond=read.beyond)
                marked += 1
    left = len(waiting) - marked
    click.echo(f"{marked} marked, {left} of {len(every)} left.")


class _End(enum.Enum):
    """Ways to leave a file without a mark."""

    SKIP = "s"
    STOP = "q"


def _show(answer: marking.FileToMark, head: str, items: Sequence[marking.RubricItem]) -> None:
    """Print a file with its line numbers, and the items of the rubric below it."""
    result = answer.result
    click.echo(
        f"\n{clean(head, _LONGEST_LINE)}  {number(result.score)} / {number(result.max_score)}"
    )
    for place, line in enumerate(_lines(answer), 1):
        click.echo(f"{place:>4}  {clean(line.expandtabs(4), _LONGEST_LINE)}")
    for item in items:
        click.echo(f"  {item.key}  {number(item.points):>5}  {clean(item.says, _LONGEST_LINE)}")
    click.echo("  n keep and go on, s skip, c comment, q stop")


def _ask(
    book: Gradebook, answer: marking.FileToMark, items: Sequence[marking.RubricItem]
) -> tuple[list[marking.RubricItem], list[str]] | _End:
    """Ask for the items and comments of a file, keeping each answer at once; or return how it was left."""
    by_key = {item.key: item for item in items}
    begun = marking.draft_of(book, answer)
    # The rubric may have lost an item since.
    chosen = {key: by_key[key] for key in begun.keys if key in by_key}
    comments = list(begun.comments)
    if chosen or comments:
        _tell(chosen, comments)
    while True:
        key = _pressed()
        if key in ("q", "\x03", "\x04", ""):
            return _End.STOP
        if key == "s":
            return _End.SKIP
        if key in ("n", "\r", "\n"):
            return list(chosen.values()), comments
        if key == "c":
            comments.append(_commented(len(_lines(answer))))
        elif key not in by_key:
            continue
        elif chosen.pop(key, None) is None:
            chosen[key] = by_key[key]
        draft = Draft(tuple(chosen), tuple(comments))
        marking.keep_draft(book, answer, draft if chosen or comments else None)
        _tell(chosen, comments)


def _lines(answer: marking.FileToMark) -> list[str]:
    """Return the lines of a file, numbered as comments refer to them."""
    return answer.source.decode("utf-8", "replace").splitlines()


def _commented(lines: int) -> str:
    """Ask for a comment and its line until the line is valid. An empty line means none."""

    def line_number(text: str) -> int:
        # An empty answer means no line.
        if text and (not text.isdecimal() or not 1 <= int(text) <= lines):
            raise click.BadParameter(f"the file has lines 1 to {lines}; press Enter for no line.")
        return int(text or 0)

    line = click.prompt("Line, or nothing", default="", show_default=False, value_proc=line_number)
    text = str(click.prompt("Comment")).strip()
    return f"Line {line}: {text}" if line else text


def _pressed() -> str:
    """Read one key, or an empty text at the end of input. Keys typed ahead are kept for the next call.

    `click.getchar` would discard keys typed while a mark is being saved, or return two keys as one.
    """
    if sys.platform == "win32" or not sys.stdin.isatty():
        try:
            return click.getchar()
        except OSError as error:
            raise click.UsageError("grade mark reads single keys: run it in a terminal.") from error
    import os
    import select
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)
        key = os.read(terminal, 1).decode("ascii", "replace")
        # An arrow key sends an escape and letters, which are not meant as keys.
        while key == "\x1b" and select.select([terminal], [], [], 0)[0]:
            os.read(terminal, 32)
        return key
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _tell(chosen: dict[str, marking.RubricItem], comments: Sequence[str]) -> None:
    """Print the items and comments that are kept of a file so far."""
    points = sum(item.points for item in chosen.values())
    words = f"  {' '.join(chosen) or 'nothing'}: {number(points)} points"
    if comments:
        words += f", {counted(len(comments), 'comment')}: {on_one_line(chr(10).join(comments))}"
    click.echo(clean(words, _LONGEST_LINE))
