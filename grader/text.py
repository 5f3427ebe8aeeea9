"""Harmless, bounded text: strangers' text made safe to show, counts, likely names, plain ASCII."""

from __future__ import annotations

import codecs
import datetime
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

LONGEST_TEXT = 120
# Escapes for bold and colored text, as torch writes them into its messages.
_DECORATION = re.compile(r"\x1b\[[0-9;]*m")


def clean(text: str, limit: int = LONGEST_TEXT) -> str:
    """Return one line of at most `limit` characters, with invisible characters escaped.

    Control characters could drive a terminal, and bidirectional ones reorder the words of a message; both are
    shown as escapes.
    """
    shown = "".join(
        character
        if unicodedata.category(character)[0] not in "CZ" or character == " "
        else character.encode("unicode_escape").decode("ascii")
        for character in text[: limit + 1]
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def clean_lines(text: str, limit: int) -> str:
    """Return several lines, cleaned one by one, at most `limit` characters in all, without colors."""
    plain = _DECORATION.sub("", text[:limit])
    lines = plain.replace("\t", "    ").split("\n")
    cleaned = "\n".join(clean(line.removesuffix("\r"), limit) for line in lines)
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """Return a count with its noun: 1 line, 2 lines."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def with_article(noun: str) -> str:
    """Return a noun with its article: a tensor, an int64 tensor, a uint8 tensor, an SGD, a NoneType."""
    word = noun.lstrip("\"'`_")
    # Two capitals are read letter by letter.
    spelled = re.match(r"[A-Z]{2,}(?![a-z])", word)
    vowel = r"[AEFHILMNORSX]" if spelled else r"(?i:[aeio]|u(?!int|ni|se)|nd)"
    return f"{'an' if re.match(vowel, word) else 'a'} {noun}"


def listed(names: Sequence[str], most: int = 20) -> str:
    """Join names: a, b and c; if there are more than `most`, only the first, and the number of the rest."""
    between = separator(names[:most])
    if len(names) > most:
        return f"{between.join(names[:most])} and {len(names) - most} more"
    *first, last = names
    return f"{between.join(first)} and {last}" if first else last


# Most names in a note that is the only place for them, such as work that belongs to no student.
MOST_NAMES = 200


def listed_names(names: Sequence[str], most: int = 5) -> str:
    """Return strangers' names for a message: the first ones, made harmless, and the number of the rest.

    >>> listed_names(["Doe, Jane", "Li, Kim"])
    'Doe, Jane; Li, Kim'
    """
    shown = [clean(name, 60) for name in names[:most]]
    first = separator(shown).join(shown)
    return first if len(names) <= most else f"{first} and {len(names) - most} more"


def separator(names: Iterable[str]) -> str:
    """Return the text to write between names: a semicolon if any of them has a comma."""
    return "; " if any("," in name for name in names) else ", "


def rounded(value: float) -> float:
    """Round to hundredths, half of one away from zero, as people and spreadsheets do.

    Rounded values are for showing and keeping. Compute percentages from exact values.
    """
    # 0.285 is a little less in binary.
    return math.copysign(math.floor(abs(value) * 100 + 0.5 + 1e-6) / 100, value) + 0.0


def utc(time: datetime.datetime | float | None = None) -> str:
    """Return a time, or seconds since 1970, in ISO 8601 in UTC; the present time if none is given.

    >>> utc(0)
    '1970-01-01T00:00:00Z'
    """
    if time is None:
        time = datetime.datetime.now(datetime.UTC)
    elif not isinstance(time, datetime.datetime):
        time = datetime.datetime.fromtimestamp(time, datetime.UTC)
    return time.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def number(value: float) -> str:
    """Return points as a person writes them: 15, 7.5, 0.33."""
    return f"{rounded(value):.2f}".rstrip("0").rstrip(".")


def in_points(value: float) -> str:
    """Return points with their noun: 1 point, 7.5 points."""
    words = number(value)
    return f"{words} point" if words in ("1", "-1") else f"{words} points"


# A longer list is not read: of it, only the nearest names are shown.
_NAMES_READ, _NAMES_SHOWN = 20, 5


def nearest(name: str, known: Iterable[str], also: Mapping[str, str] | None = None) -> str:
    """Return a sentence with the known names that may be meant; `also` has other words for some of them."""
    from difflib import get_close_matches

    words = {text.casefold(): text for text in known}
    for text, meant in (also or {}).items():
        words.setdefault(text.casefold(), meant)
    close = [words[match] for match in get_close_matches(name.casefold(), words, n=3, cutoff=0.5)]
    if found := list(dict.fromkeys(close)):
        return f"Did you mean {' or '.join(map(repr, found))}?"
    names = list(dict.fromkeys(words.values()))
    if len(names) <= _NAMES_READ:
        return f"There are: {', '.join(names)}." if names else "There is none yet."
    closest = get_close_matches(name.casefold(), words, n=_NAMES_SHOWN, cutoff=0.0)
    shown = list(dict.fromkeys(words[match] for match in closest))
    return f"There are: {', '.join(shown)} and {len(names) - len(shown)} more."


_WORD = re.compile(r"[^\W\d_]{2,}")


def names_differ(one: str, other: str) -> bool:
    """Whether two full names have no word in common, so they are probably of different people.

    Accents do not matter, and a name may be a single word, as in Canvas's downloads. Names that cannot be
    compared do not differ: empty ones, "Participant 501", and names in two scripts.

    >>> names_differ("Jane Doe", "Kim Lee"), names_differ("Größe, Jürgen", "groessejuergen")
    (True, False)
    """
    first, second = _words_of(one), _words_of(other)
    if not first or not second or "".join(first).isascii() != "".join(second).isascii():
        return False
    shortest = 2 if 1 in (len(first), len(second)) else 3
    return not (
        {*first} & {*second}
        or any(len(word) >= shortest and word in "".join(second) for word in first)
        or any(len(word) >= shortest and word in "".join(first) for word in second)
    )


def _words_of(name: str) -> list[str]:
    """Return the words of a name without accents, with ä and ae alike; none if there are digits."""
    if any(map(str.isdigit, name)):
        return []
    parts = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(sign for sign in parts if not unicodedata.combining(sign))
    return _WORD.findall(re.sub("(?<=[aou])e", "", plain))


def alike(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are similar enough to be the same person's, the likeliest first."""
    from difflib import get_close_matches

    folded = {text.casefold(): text for text in known}
    return [folded[match] for match in get_close_matches(name.casefold(), folded, n=3, cutoff=0.75)]


# Replacements for characters that an encoding lacks; others are replaced by their parts.
_PLAIN = {
    "\N{MIDDLE DOT}": "*",
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{SUPERSCRIPT TWO}": "^2",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{PLUS-MINUS SIGN}": "+-",
    "\N{CHECK MARK}": "+",
    "\N{BALLOT X}": "x",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
}
# The name of an error handler for streams: "..." for an ellipsis, "->" for an arrow, "e" for one with an
# accent.
PLAINER = "lab-bench-plainer"


def _plainer(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_in_ascii, error.object[error.start : error.end])), error.end


def _in_ascii(character: str) -> str:
    if character in _PLAIN:
        return _PLAIN[character]
    parts = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode("ascii")
    return parts or "?"


codecs.register_error(PLAINER, _plainer)
