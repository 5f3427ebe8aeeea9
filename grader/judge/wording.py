"""Bounded, harmless text: how values and names read in a message to a student."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from grader.judge.comparison import Position, is_array, is_tensor
from grader.sandbox.values import Opaque, Record

__all__ = [
    "a_kind",
    "clean",
    "clean_lines",
    "counted",
    "element",
    "message",
    "numbers_apart",
    "quoted",
    "sentence",
    "shape_of",
    "subject",
    "verb",
]

LONGEST_MESSAGE = 1500
_LONGEST_TEXT = 120
# The words that begin a sentence of ours or of a suite's `what`; every other word may be a name.
_OPENERS = re.compile(r"(a|all|an|as|both|each|entry|every|its?|line|no|one|the|these|this|your)\b")


def clean(text: str, limit: int = _LONGEST_TEXT) -> str:
    """One line of at most `limit` characters in which nothing invisible is left as it is.

    Control characters could drive a terminal, and the bidirectional ones reorder the words of a
    message; both are shown as escapes.
    """
    shown = "".join(
        character
        if unicodedata.category(character)[0] not in "CZ" or character == " "
        else character.encode("unicode_escape").decode("ascii")
        for character in text[: limit + 1]
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def clean_lines(text: str, limit: int) -> str:
    """Several lines, cleaned one by one, at most `limit` characters in all."""
    lines = text[:limit].replace("\t", "    ").split("\n")
    cleaned = "\n".join(clean(line.removesuffix("\r"), limit) for line in lines)
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def quoted(text: str, limit: int = _LONGEST_TEXT) -> str:
    return f'"{clean(text, limit)}"'


def message(lines: Iterable[str]) -> str:
    """The lines of one message, bounded and cleaned, whatever the student's text in them."""
    return clean_lines("\n".join(lines), LONGEST_MESSAGE)


def sentence(text: str) -> str:
    """The text with a capital letter, unless it begins with a name of the code, as in gelu(x)."""
    return text[:1].upper() + text[1:] if _OPENERS.match(text) else text


_FROM_0 = " (counted from 0)"


def subject(what: str, path: tuple[Any, ...]) -> str:
    """What is spoken about: the output; entry 2 (counted from 0) of the output."""
    for key in path:
        if isinstance(key, Position):
            what = f"entry {key}{_FROM_0} of {what}"
        else:
            what = f"the entry {element(key)} of {what}"
    # Said once, however deep the lists are.
    return what.replace(_FROM_0, "", what.count(_FROM_0) - 1) if _FROM_0 in what else what


def verb(what: str, singular: str, plural: str) -> str:
    """The verb that agrees with the first noun: the gradients of x *have*, the loss *has*."""
    noun = re.split(r" (?:of|at|for|in|on|with|after|from|to|by|under|when|that)\b", what)[0]
    return plural if re.search(r"[^siu']s$", noun) and not noun.endswith("bias") else singular


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """1 line, 2 lines."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def element(value: Any) -> str:
    """One number, string or other leaf as a student reads it."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        if value.bit_length() > 200:  # Python refuses to print more than 4300 digits
            return f"an integer of about {value.bit_length() * 0.30103:.0f} digits"
        return str(value)
    if isinstance(value, (float, complex)):
        return f"{value + 0.0:.7g}"  # so that no minus stands before a zero
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return quoted(value[:_LONGEST_TEXT].decode("ascii", "backslashreplace"))
    return a_kind(value)


def numbers_apart(left: complex, right: complex) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to tell them apart."""
    shown = element(left), element(right)
    if shown[0] == shown[1] and isinstance(left, (float, complex)):
        return f"{left:.17g}", f"{right:.17g}"
    return shown


def shape_of(array: Any) -> str:
    return str(tuple(array.shape)) if len(array.shape) <= 8 else f"of {len(array.shape)} dimensions"


def a_kind(value: Any) -> str:
    """The type of a value with its article: a Tensor, an int, a NamedTuple PaddedBatch."""
    if value is None:
        return "None"
    if isinstance(value, Opaque):
        return f"an object of type {clean(value.type_name, 60)}"
    if isinstance(value, Record):
        return f"a NamedTuple {clean(value.type_name, 60)}"
    if is_tensor(value):
        return "a Tensor"
    if is_array(value):
        return "a numpy.ndarray"
    if isinstance(value, Mapping):
        return "a dict"
    for kind, words in (
        (bool, "a bool"),
        (int, "an int"),
        (float, "a float"),
        (str, "a string"),
        (bytes, "bytes"),
        (list, "a list"),
        (tuple, "a tuple"),
    ):
        if isinstance(value, kind):
            return words
    return f"an object of type {clean(type(value).__name__, 60)}"
