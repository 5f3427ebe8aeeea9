"""Make strangers' text safe for files: bounded, and free of anything that a reader would execute."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from grader.errors import GraderError
from grader.text import clean_lines

_TRUNCATED = "\n[…]"
# Joiners belong to words of Persian and Indian languages, and to emoji; other invisible signs reorder or hide
# text.
_JOINERS = "\u200c\u200d"


def one_line(text: str) -> str:
    """Return a name or a cell on one line: no control characters, no invisible or reordering ones."""
    if text.isprintable():  # nearly every name and title
        return " ".join(text.split())
    shown = []
    for character in text:
        category = unicodedata.category(character)
        if category in ("Cc", "Zl", "Zp", "Zs"):
            shown.append(" ")
        elif category == "Cs":
            shown.append("\N{REPLACEMENT CHARACTER}")
        elif category != "Cf" or character in _JOINERS:
            shown.append(character)
    return " ".join("".join(shown).split())


def shortened(text: str, limit: int) -> str:
    """Return several lines in at most `limit` characters, cleaned; a mark shows where they are cut."""
    # Cleaning makes no character shorter, and none more than ten times as long.
    shown = text[: limit + 1]
    if not all(line.isprintable() for line in shown.split("\n")):
        shown = clean_lines(shown, max(len(shown) * 10, 1))
    if len(shown) <= limit:
        return shown
    return shown[: max(limit - len(_TRUNCATED), 0)] + _TRUNCATED[:limit]


def in_html(text: str) -> str:
    """Escape text for HTML and Markdown: every ASCII sign becomes an entity.

    No entity opens a tag, a column, a code span or a link.
    """
    return re.sub(r"[!-/:-@\[-`{-~]", lambda sign: f"&#{ord(sign[0])};", text)


def command_data(text: str) -> str:
    """Escape the message of a GitHub workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(text: str) -> str:
    """Escape a property of a GitHub workflow command, such as `title` or `file`."""
    return command_data(text).replace(":", "%3A").replace(",", "%2C")


def no_commands(text: str) -> str:
    """Return text for a GitHub log in which no line is a workflow command, old style or new."""
    return re.sub(r"(?m)^(\s*):(?=:)", r"\1: ", text).replace("##[", "## [")


def fitted(write: Callable[[int], bytes], most: int) -> bytes:
    """Return the file with the longest texts that fits into `most` bytes.

    `write` makes the file from the limit for one text, in characters. Limits are tried from the longest to
    zero. Raises GraderError if the file is too large even without texts.
    """
    for limit in (10_000, 1500, 500, 150, 40, 0):
        written = write(limit)
        if len(written) <= most:
            return written
    raise GraderError(
        f"A result does not fit into the {most:,} bytes of this format: it has too many tests."
    )
