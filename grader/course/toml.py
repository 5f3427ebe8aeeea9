"""The TOML files of a course: read with a message for the author, and written anew, without comments."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from grader.errors import CourseError, GraderError
from grader.toml import TomlMistake, read_toml

IDENTIFIER = r"^[a-z][a-z0-9_]*$"
QUALIFIED_NAME = r"^[^\W\d]\w*(\.[^\W\d]\w*)*$"
_PATTERNS = {
    IDENTIFIER: "a small letter, then small letters, digits and _",
    QUALIFIED_NAME: "the name of a function or class, as forward or GatedLinearUnit.forward",
}
# Where in the file a decoder stopped.
_AT_TABLE = re.compile(r"(?P<table>exercise|assignment)\[(?P<number>\d+)\]\.?(?P<key>.*)")
_WIDTH = 100

T = TypeVar("T")


def decoded(file: Path, kind: type[T], page: str) -> T:
    """Read a file of a course as a struct whose keys this page of docs/ explains.

    Raises CourseError with the file, the line, the exercise or assignment, and the key.
    """
    advice = f"Compare with docs/{page}, where every key is explained."
    try:
        text = file.read_text(encoding="utf-8")
        return read_toml(text, kind)
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{file}: {error}. {advice}") from error
    except TomlMistake as error:
        raise CourseError(f"{file}{error.place}: {_explained(error, text)}. {advice}") from error


def _explained(mistake: TomlMistake, text: str) -> str:
    """A decoder's message, with the id in the place of `exercise[0]` and words for a pattern."""
    reason = mistake.reason.rstrip(".")
    for pattern, words in _PATTERNS.items():
        reason = reason.replace(f"`str` matching regex {pattern!r}", words)
    if (at := _AT_TABLE.fullmatch(mistake.path)) is not None:
        table, number, key = at["table"], int(at["number"]), at["key"]
        name = _id_of(text, table, number) or f"number {number + 1}"
        return f"{reason} ({f'`{key}` of the ' if key else ''}{table} {name})"
    return f"{reason} (`{mistake.path}`)" if mistake.path else reason


def _id_of(text: str, table: str, number: int) -> str:
    """The id of a table of a file that is not in order; empty if it has none."""
    try:
        return repr(tomllib.loads(text)[table][number]["id"])
    except (ValueError, LookupError, TypeError):
        return ""


def written(table: Mapping[str, Any]) -> str:
    """A table as a TOML file: its values, then the arrays of tables in it, each under its header.

    Raises GraderError where reading it again would give something else.
    """
    text = "\n".join(_lines(table, "")) + "\n"
    if tomllib.loads(text) != table:
        raise GraderError("A file of the course could not be written anew as TOML.")
    return text


def _lines(table: Mapping[str, Any], name: str) -> Iterator[str]:
    tables = {key: value for key, value in table.items() if _is_tables(value)}
    for key, value in table.items():
        if key not in tables:
            yield f"{_key(key)} = {_value(value)}"
    for key, rows in tables.items():
        for row in rows:
            yield f"\n[[{name}{key}]]"
            yield from _lines(row, f"{name}{key}.")


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        pairs = [f"{_value(key)} = {_value(item)}" for key, item in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list):
        items = [_value(item) for item in value]
        line = f"[{', '.join(items)}]"
        return line if len(line) <= _WIDTH else "[\n    " + ",\n    ".join(items) + ",\n]"
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    # A string of JSON is one of TOML but for this character, which TOML has escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
