"""The blocks of a result, drawn in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import hang, marks_for, outcome_mark
from grader.results import Outcome, Place
from grader.student.blocks import Block, Hint, Message, Note, Printed, Section, Where
from grader.text import clean, counted

LONGEST_LINE = 1000
_INDENT = "      "


def section_lines(
    console: Console,
    section: Section,
    where: Callable[[Place], str],
    *,
    prefix: Text | None = None,
    about: str = "",
    printed: int = 5,
) -> Iterator[Text]:
    """A title behind its mark, and its blocks below; `about` stands dim beside the title.

    `where` writes a place as the reader finds it; `prefix` replaces the indented mark. Of what student code
    printed so many lines are shown.
    """
    test = section.test
    if test is not None:
        mark = outcome_mark(test.outcome, marks_for(console))
        prefix = prefix if prefix is not None else Text.assemble("    ", mark, " ")
        title = Text(clean(section.title, LONGEST_LINE), "bold" if section.is_part else "")
        yield from hang(console, prefix, Text.assemble(title, (about, "dim")))
    is_quiet = test is not None and test.outcome is Outcome.SKIPPED
    for block in section.blocks:
        if isinstance(block, Printed):
            yield from printed_lines(console, block.text, _INDENT, printed)
        else:
            yield from _block_lines(console, block, where, is_quiet=is_quiet)


def _block_lines(
    console: Console, block: Block, where: Callable[[Place], str], *, is_quiet: bool
) -> Iterator[Text]:
    match block:
        case Message(text):
            first, _, details = text.partition("\n")
            yield from text_lines(console, first, _INDENT, "dim" if is_quiet else "bold")
            yield from text_lines(console, details, _INDENT, "dim" if is_quiet else "")
        case Where(place):
            yield from _place_lines(console, where(place), place.function)
        case Hint(text):
            prefix = Text(f"{_INDENT}{marks_for(console).arrow} ")
            yield from hang(console, prefix, Text(clean(text, LONGEST_LINE), "italic"))
        case Note(text):
            yield from hang(console, Text(_INDENT), Text(clean(text, LONGEST_LINE), "dim"))


def printed_lines(console: Console, text: str, indent: str, most: int) -> Iterator[Text]:
    """What student code printed: how many lines, at most so many of them, and how many more."""
    lines = text.splitlines()
    # What is left of one line is shown.
    shown = lines if len(lines) <= most + 1 else lines[:most]
    yield Text(f"{indent}{counted(len(lines), 'line')} printed:", "dim")
    yield from text_lines(console, "\n".join(shown), f"{indent}| ", "dim")
    if more := len(lines) - len(shown):
        yield Text(f"{indent}and {counted(more, 'line')} more", "dim")


def _place_lines(console: Console, where: str, function: str) -> Iterator[Text]:
    place = Text.assemble(_INDENT, (where, "cyan"))
    inside = Text(f"in {clean(function)}" if function else "", "dim")
    fits = place.cell_len + 2 + inside.cell_len <= console.width
    if not inside or fits or not console.is_terminal:
        yield Text.assemble(place, "  " if inside else "", inside)
    else:
        # A path stays in one piece, to be clicked; what stands beside it need not.
        yield from (place, Text.assemble(_INDENT, inside))


def text_lines(console: Console, text: str, prefix: str, style: str) -> Iterator[Text]:
    """Each line of a text behind the prefix."""
    for line in text.splitlines():
        shown = Text(clean(line.expandtabs(4), LONGEST_LINE), style)
        yield from hang(console, Text(prefix), shown)
