"""The TOML of a course: where in a file a fault stands, and how tables are written anew, without comments."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grader.errors import GraderError

IDENTIFIER = r"^[a-z][a-z0-9_]*$"
QUALIFIED_NAME = r"^[^\W\d]\w*(\.[^\W\d]\w*)*$"
_PATTERNS = {
    IDENTIFIER: "a small letter, then small letters, digits and _",
    QUALIFIED_NAME: "the name of a function or class, as forward or GatedLinearUnit.forward",
}
# How a decoder says where it stopped.
_AT_TABLE = re.compile(
    r" - at (`key` in )?`\$\.(?P<table>exercise|assignment)\[(?P<number>\d+)\]\.?(?P<key>.*?)`"
)
_WIDTH = 100


def explained(error: Exception, file: Path) -> str:
    """A decoder's message, with the id in the place of `$.exercise[0]` and words for a pattern."""
    text = str(error)
    for pattern, words in _PATTERNS.items():
        text = text.replace(f"`str` matching regex {pattern!r}", words)
    if (at := _AT_TABLE.search(text)) is not None:
        table, number, key = at["table"], int(at["number"]), at["key"]
        name = _id_of(file, table, number) or f"number {number + 1}"
        where = f" (`{key}` of the {table} {name})" if key else f" ({table} {name})"
        text = text[: at.start()] + where + line_of(file, table, number, key)
    return text.replace("`$.", "`").rstrip(".")


def line_of(file: Path, table: str, number: int, key: str = "") -> str:
    """The line of a key of the table of this number, from 0, as `, line 12`; empty if it is not seen."""
    name = re.match(r"\w*", key)
    beginning = re.compile(rf"\s*(\[+{table}\.)?{name[0]}\b") if name and name[0] else None
    tables = -1
    for count, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        tables += re.match(rf"\s*\[\[\s*{table}\s*\]\]", line) is not None
        if tables == number and (beginning is None or beginning.match(line)):
            return f", line {count}"
    return ""


def _id_of(file: Path, table: str, number: int) -> str:
    """The id of a table of a file that is not in order; empty if it has none."""
    try:
        return repr(tomllib.loads(file.read_text(encoding="utf-8"))[table][number]["id"])
    except (OSError, ValueError, LookupError, TypeError):
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
