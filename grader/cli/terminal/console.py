"""A console for any stream, with marks and words for states.

On a terminal there are colors, and a few symbols beside the words. In a pipe, a log or a dumb terminal, the
same words appear in plain ASCII layout, without color or cursor control.
"""

from __future__ import annotations

import functools
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Concatenate, ParamSpec, TextIO

import msgspec
from rich.console import Console
from rich.text import Text

from grader.results import Outcome, Status
from grader.student.blocks import OUTCOME, STATUS, status_text
from grader.text import clean, counted, separator

P = ParamSpec("P")

PLAIN_WIDTH = 80
# A narrower title says less than the exercise's id.
SHORTEST_TITLE = 20
DIFFICULTY = {1: "gentle", 2: "medium", 3: "hard"}


class Marks(msgspec.Struct, frozen=True):
    """Symbols beside words, which only repeat the words."""

    good: str
    part: str
    bad: str
    quiet: str
    look: str
    arrow: str
    dots: str
    full: str
    empty: str


_SYMBOLS = Marks("✓", "◐", "✗", "○", "!", "→", "…", "━", "─")
_ASCII = Marks("+", "~", "x", "-", "!", ">", "...", "", "")

_STYLES = {"good": "green", "part": "yellow", "bad": "red", "quiet": "dim", "look": "red"}


def open_console(stream: TextIO | None = None) -> Console:
    """Open a console that takes text literally: no markup, no emoji codes, no highlighting.

    It writes to stdout unless another stream is given. NO_COLOR disables all escape sequences, even bold and
    dim.
    """
    stream = sys.stdout if stream is None else stream
    return Console(
        file=stream,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        width=None if stream.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
    )


def is_plain(console: Console) -> bool:
    """Return whether only ASCII layout is possible; an old code page has no check mark."""
    utf = console.encoding.lower().replace("-", "").startswith("utf")
    return not console.is_terminal or console.is_dumb_terminal or console.legacy_windows or not utf


def marks_for(console: Console) -> Marks:
    """Return the symbols that this console can show."""
    return _ASCII if is_plain(console) else _SYMBOLS


def status_words(status: Status, marks: Marks, *, waiting: bool = False) -> tuple[Text, Text]:
    """Return the mark and the words of a status, in its color."""
    kind, _ = STATUS[status]
    words = status_text(status, waiting=waiting)
    return Text(getattr(marks, kind), _STYLES[kind]), Text(words, _STYLES[kind])


def outcome_mark(outcome: Outcome, marks: Marks) -> Text:
    """Return the mark of a test's outcome, in its color."""
    kind, _ = OUTCOME[outcome]
    return Text(getattr(marks, kind), _STYLES[kind])


def print_lines(console: Console, lines: Iterable[Text]) -> None:
    """Print finished lines without wrapping: a path longer than the terminal must stay in one piece."""
    for line in lines:
        line.rstrip()
        console.print(line, soft_wrap=True)


def printed(
    lines: Callable[Concatenate[Console, P], Iterator[Text]],
) -> Callable[Concatenate[Console, P], None]:
    """Decorate a function that yields lines, so that it prints each as soon as it is ready."""

    @functools.wraps(lines)
    def show(console: Console, /, *arguments: P.args, **keywords: P.kwargs) -> None:
        print_lines(console, lines(console, *arguments, **keywords))

    return show


def say(console: Console, text: str, style: str = "") -> None:
    """Print a line of one style."""
    print_lines(console, [Text(text, style)])


def height_of(console: Console, lines: Sequence[Text]) -> int:
    """Return how many rows finished lines take, when the terminal breaks long ones."""
    return sum(max(1, -(-line.cell_len // console.width)) for line in lines)


def hang(console: Console, prefix: Text | str, body: Text | str, style: str = "") -> Iterator[Text]:
    """Wrap a text beside its prefix, with hanging indentation.

    `style` applies to a body that has none.
    """
    prefix = Text(prefix) if isinstance(prefix, str) else prefix
    body = Text(body, style) if isinstance(body, str) else body
    width = max(20, console.width - prefix.cell_len)
    indent = Text(" " * prefix.cell_len)
    for row, line in enumerate(body.wrap(console, width)):
        yield Text.assemble(indent if row else prefix, line)


def whole_words(console: Console, text: str, style: str) -> Iterator[Text]:
    """Wrap a text between words, but only on a terminal. A path stays in one piece."""
    if not console.is_terminal:
        yield Text(text, style)
        return
    width = max(20, console.width)
    for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False):
        yield Text(line, style)


def checked(console: Console, holds: bool, text: str, *, label: str = "") -> Iterator[Text]:
    """Return a text after a green or red mark and its label."""
    marks = marks_for(console)
    mark = Text(marks.good, "green") if holds else Text(marks.bad, "red")
    return hang(console, Text.assemble(mark, " ", label), text)


def cut(text: str, width: int, marks: Marks) -> Text:
    """Shorten the text to `width` cells of a terminal, with dots if something is cut off."""
    cut_text = Text(text)
    if cut_text.cell_len > width:
        cut_text.truncate(max(width - len(marks.dots), 0), overflow="crop")
        cut_text.append(marks.dots)
    return cut_text


def bar(console: Console, done: float, whole: float) -> Text:
    """Return a bar for the share that is done, after a space; full or empty only if exactly so."""
    marks = marks_for(console)
    cells = max(min(20, console.width - 40), 0)
    full = round(cells * done / whole) if whole else 0
    if 0 < done < whole:
        full = min(max(full, 1), cells - 1)
    drawn = (marks.full * full, "green"), (marks.empty * (cells - full), "dim")
    return Text.assemble("  ", *drawn) if marks.full and cells else Text()


def some_of(names: Sequence[str], most: int, between: str = "") -> str:
    """Join at most `most` names, followed by the number of the others."""
    between = between or separator(names[:most])
    more = f"{between.replace(',', '')}and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def and_more(count: int, what: str = "", indent: str = "  ", where: str = "") -> Iterator[Text]:
    """Return the line below a shortened list: how many more there are, of which kind, and where."""
    if count > 0:
        more = counted(count, f"more {what}") if what else f"{count} more"
        yield Text(f"{indent}and {more}{where}", "dim")


def called_within(students: Sequence[str], names: Mapping[str, str], most: int) -> str:
    """Return at most `most` students for brackets: each id, and after a comma the name if it differs."""
    who = [clean(student, 40) for student in students]
    shown = [clean(names.get(student, ""), 30) for student in students]
    pairs = [f"{id_}, {name}" if name else id_ for id_, name in zip(who, shown, strict=True)]
    return some_of(pairs, most)


def called(student: str, names: Mapping[str, str]) -> str:
    """Return a student's id, followed by the name if it differs."""
    name = names.get(student, "")
    return clean(student, 40) + (f" ({clean(name, 30)})" if name else "")
