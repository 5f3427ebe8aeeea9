"""Strangers' text made safe for a file, for all formats: bounded, and without what a reader would execute."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from grader.errors import GraderError
from grader.text import clean_lines

_TRUNCATED = "\n[…]"
# Joiners belong to words of Persian, of Indian languages, and to emoji; other invisible signs reorder or hide.
_JOINERS = "\u200c\u200d"


def one_line(text: str) -> str:
    """A name or a cell on one line: no control characters, no invisible or reordering ones."""
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
    """Several lines in at most `limit` characters, cleaned; a mark says where they are cut off."""
    # No sign is shorter when it is cleaned, and ten times as long at most.
    shown = text[: limit + 1]
    if not all(line.isprintable() for line in shown.split("\n")):
        shown = clean_lines(shown, max(len(shown) * 10, 1))
    if len(shown) <= limit:
        return shown
    return shown[: max(limit - len(_TRUNCATED), 0)] + _TRUNCATED[:limit]


def in_html(text: str) -> str:
    """Text that is nothing but text in HTML and in Markdown: every ASCII sign becomes an entity.

    No entity opens a tag, a column, a code span or a link.
    """
    return re.sub(r"[!-/:-@\[-`{-~]", lambda sign: f"&#{ord(sign[0])};", text)


def command_data(text: str) -> str:
    """The message of a GitHub workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(text: str) -> str:
    """A property of a GitHub workflow command, as `title` or `file`."""
    return command_data(text).replace(":", "%3A").replace(",", "%2C")


def no_commands(text: str) -> str:
    """Text for a GitHub log in which no line is a workflow command, old style or new."""
    return re.sub(r"(?m)^(\s*):(?=:)", r"\1: ", text).replace("##[", "## [")


def fitted(write: Callable[[int], bytes], most: int) -> bytes:
    """The file with the longest texts for which it fits into `most` bytes.

    `write` makes the file; it gets the most characters that one text may have. The limits are tried from the
    longest to none at all. Raises GraderError where the file is too large even without texts.
    """
    for limit in (10_000, 1500, 500, 150, 40, 0):
        written = write(limit)
        if len(written) <= most:
            return written
    raise GraderError(
        f"A result does not fit into the {most:,} bytes that this format allows: it has too many tests."
    )
