"""TOML files that authors write, read into structs, for the manifest, the policy and the wrong answers.

What is wrong in one is a `TomlMistake` with its line. Neither tomllib nor msgspec says where a key stands, so
that `line_of` looks for it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_Path = tuple[str | int, ...]

_AT = re.compile(r" - at (`key` in )?`\$\.?(?P<path>[^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>.*)`")
_AT_LINE = re.compile(r" \(at line (?P<line>\d+), column \d+\)")
_HEADER = re.compile(r"\s*(?P<open>\[\[?)(?P<names>[^\]]+)\]")
_KEY = re.compile(r"\s*(?P<names>[\w\"'.-]+(\s*\.\s*[\w\"'-]+)*)\s*=")
_QUOTES = re.compile(r"'''|\"\"\"")


class TomlMistake(ValueError):
    """What is wrong in a TOML text: `reason` in the parser's or decoder's words, `line` from 1 (0: unknown).

    `path` names the key or table, as `exercise[2].points`; it is empty for the file as a whole, and for what is
    no TOML.
    """

    def __init__(self, reason: str, path: str, line: int) -> None:
        super().__init__(reason)
        self.reason, self.path, self.line = reason, path, line

    @property
    def place(self) -> str:
        """What follows the file's name in a message: ", line 12"."""
        return f", line {self.line}" if self.line else ""


def read_toml(text: str, kind: type[T], *, dec_hook: Callable[[type, Any], Any] | None = None) -> T:
    """Read a TOML text as a struct; raises TomlMistake."""
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
        at = _AT_LINE.search(reason)
        raise TomlMistake(_AT_LINE.sub("", reason), "", int(at["line"]) if at else 0) from error
    return converted(read, kind, text, dec_hook=dec_hook)


def converted(
    read: object,
    kind: type[T],
    text: str = "",
    *,
    dec_hook: Callable[[type, Any], Any] | None = None,
) -> T:
    """Convert what was read from a TOML text to a struct; raises TomlMistake."""
    try:
        return msgspec.convert(read, kind, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        reason = str(error)
        at = _AT.search(reason)
        reason, path = (reason[: at.start()], at["path"]) if at else (reason, "")
        unknown = _UNKNOWN.fullmatch(reason)
        key = f"{path}.{unknown['key']}" if unknown else path
        raise TomlMistake(reason, path, line_of(text, key)) from error


def line_of(text: str, path: str) -> int:
    """The line, from 1, where a key or table stands, or else the table around it; 0 where neither is seen.

    >>> line_of("[[due]]\\nat = 1\\n[[due]]\\nat = 2\\n", "due[1].at")
    4
    """
    wanted: _Path = tuple(
        int(number) if number else name for name, number in re.findall(r"([\w-]+)|\[(\d+)\]", path)
    )
    best, best_line = 0, 0
    for number, place in _places(text):
        if len(place) > best and place == wanted[: len(place)]:
            best, best_line = len(place), number
    return best_line


def _places(text: str) -> Iterator[tuple[int, _Path]]:
    """The line of each header and key, and its path; an entry of an array of tables has its number from 0."""
    counts: dict[_Path, int] = {}
    table: _Path = ()
    quotes = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not quotes:
            if (header := _HEADER.match(line)) is not None:
                table = ()
                names = _names(header["names"])
                for at, name in enumerate(names, 1):
                    table += (name,)
                    if at == len(names) and header["open"] == "[[":
                        counts[table] = counts.get(table, -1) + 1
                    if table in counts:
                        table += (counts[table],)
                yield number, table
            elif (key := _KEY.match(line)) is not None:
                yield number, (*table, *_names(key["names"]))
        for mark in _QUOTES.findall(line):
            quotes = mark if not quotes else "" if mark == quotes else quotes


def _names(dotted: str) -> list[str]:
    return [name.strip().strip("\"'") for name in dotted.split(".")]
