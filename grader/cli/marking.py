"""A file that is marked in the terminal: shown with its rubric, and one key for each answer."""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from grader.gradebook.corrections import on_one_line
from grader.gradebook.facts import Remarks
from grader.gradebook.marking import RubricItem
from grader.text import clean, counted, in_points, number

_LONGEST_LINE = 300


class Shown(NamedTuple):
    """A file as it is shown: its heading, its points, and its text."""

    head: str
    score: float
    max_score: float
    source: str

    @property
    def lines(self) -> list[str]:
        """The lines of the file, numbered as comments refer to them."""
        return self.source.splitlines()


class End(enum.Enum):
    """Ways to leave a file without a mark."""

    SKIP = "s"
    STOP = "q"


def refuse_without_terminal() -> None:
    """Raise a usage error if there is no terminal from which keys can be read."""
    if sys.platform == "win32" or sys.stdin.isatty():
        return
    try:
        # `click.getchar` reads there if the standard input is a file.
        with Path("/dev/tty").open("rb"):
            pass
    except OSError as error:
        raise click.UsageError("grade mark reads single keys: run it in a terminal.") from error


def show(file: Shown, items: Sequence[RubricItem]) -> None:
    """Print a file with its line numbers, and the items of the rubric below it."""
    points = f"{number(file.score)} / {number(file.max_score)}"
    click.echo(f"\n{clean(file.head, _LONGEST_LINE)}  {points}")
    for place, line in enumerate(file.lines, 1):
        click.echo(f"{place:>4}  {clean(line.expandtabs(4), _LONGEST_LINE)}")
    for item in items:
        click.echo(f"  {item.key}  {number(item.points):>5}  {clean(item.says, _LONGEST_LINE)}")
    click.echo("  n keep and go on, s skip, c comment, q stop")


def ask(
    file: Shown, items: Sequence[RubricItem], begun: Remarks, keep: Callable[[Remarks], object]
) -> Remarks | End:
    """Ask for the items and comments of a file, which has remarks already; or return how it was left.

    After each key, the remarks so far are given to `keep`.
    """
    by_key = {item.key: item for item in items}
    # The rubric may have lost an item since.
    chosen = {key: by_key[key] for key in begun.keys if key in by_key}
    comments = list(begun.comments)
    if chosen or comments:
        _tell(chosen, comments)
    while True:
        key = _pressed()
        if key in ("q", "\x03", "\x04", ""):
            return End.STOP
        if key == "s":
            return End.SKIP
        if key in ("n", "\r", "\n"):
            return Remarks(tuple(chosen), tuple(comments))
        if key == "c":
            comments.append(_commented(len(file.lines)))
        elif key not in by_key:
            continue
        elif chosen.pop(key, None) is None:
            chosen[key] = by_key[key]
        keep(Remarks(tuple(chosen), tuple(comments)))
        _tell(chosen, comments)


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
        return click.getchar()
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


def _tell(chosen: dict[str, RubricItem], comments: Sequence[str]) -> None:
    """Print the items and comments that are kept of a file so far."""
    points = sum(item.points for item in chosen.values())
    words = f"  {' '.join(chosen) or 'nothing'}: {in_points(points)}"
    if comments:
        words += f", {counted(len(comments), 'comment')}: {on_one_line(chr(10).join(comments))}"
    click.echo(clean(words, _LONGEST_LINE))
