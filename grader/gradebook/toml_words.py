"""What is wrong in a TOML file that a person wrote, in words for that person: the line, the key, what to write.

The policy and the corrections are decoded by msgspec, whose errors name types and paths.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from grader.text import nearest

_AT = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>.*)`")
_MISSING = re.compile(r"Object missing required field `(?P<key>.*)`")
_TOML_PLACE = re.compile(r"\(at line (\d+), column \d+\)")
_HEADER = re.compile(r"\s*\[")

Tables = Mapping[str, type[msgspec.Struct]]


def no_toml(error: str, text: str) -> str:
    """The parser's words, with the line, and what a time needs."""
    place = _TOML_PLACE.search(error)
    if place is None:
        return f"this is no TOML: {error}."
    line = text.splitlines()[int(place[1]) - 1].strip() if text.splitlines() else ""
    advice = ""
    if re.search(r"\d{4}-\d\d?-\d\d?", line):
        advice = " A time has seconds and no quotes: 2026-10-12T23:59:00."
    reason = error[: place.start()].rstrip(" (")
    return f"line {place[1]} is no TOML: {reason}, in `{line}`.{advice}"


def explained(error: str, text: str, tables: Tables, examples: Mapping[str, str]) -> str:
    """The decoder's words with the line, the table and the key in the place of a path, and what to write.

    `tables` has the struct of each table by its name, that of the whole file by an empty one; `examples`
    what to write, by key.
    """
    found = _AT.search(error)
    what, path = (error[: found.start()], found["path"]) if found else (error, "")
    if (unknown := _UNKNOWN.fullmatch(what)) is not None:
        where = f" of {_where(path)}" if path else ""
        advice = _key_advice(unknown["key"], _table_of(path, tables), tables)
        path += f".{unknown['key']}"
        words = f"there is no key `{unknown['key']}`{where}. {advice}"
    elif (missing := _MISSING.fullmatch(what)) is not None:
        where = f"{_where(path)} " if path else ""
        words = f"{where}needs `{missing['key']}`. Write {examples[missing['key']]}."
    else:
        key, table = _key_and_table(path)
        of = f" of {table}" if table else ""
        example = f" Write {examples[key]}." if key in examples else ""
        words = f"`{key}`{of}: {_plain(what)}.{example}"
    line = line_of(path, text)
    return f"line {line}: {words}" if line else words


def line_of(path: str, text: str) -> int:
    """The line, from 1, of the last part of a decoder's path that is found in a text; 0 if none is."""
    lines, at = text.splitlines(), -1
    for key, index in _parts(path):
        header = re.compile(rf"\s*\[+\s*(?:[\w.-]+\.)?{re.escape(key)}\s*\]")
        headers = [n for n, line in enumerate(lines) if n > at and header.match(line)]
        if (index or 0) < len(headers):
            at = headers[index or 0]
            continue
        value = re.compile(rf"\s*{re.escape(key)}\s*=")
        for number, line in enumerate(lines[at + 1 :], at + 1):
            if _HEADER.match(line):
                break
            if value.match(line):
                at = number
                break
    return at + 1


def _key_advice(key: str, table: str, tables: Tables) -> str:
    """Where an unknown key belongs, or which ones of its table may be meant."""
    elsewhere = [f"[{name}]" for name, kind in tables.items() if key in kind.__struct_fields__]
    if elsewhere:
        return f"It belongs below {' or '.join(elsewhere).replace('[]', 'no table')}."
    return nearest(key, sorted(tables[table].__struct_fields__))


def _plain(what: str) -> str:
    """The decoder's words without its types."""
    for word, plain in (
        (" | null", ""),
        ("`datetime`", "a time"),
        ("`date`", "a date without a time"),
        ("`time`", "a time without a date"),
        ("`array`", "a list"),
        ("`object`", "a table"),
        ("`float`", "a number"),
        ("`int`", "a whole number"),
        ("`str`", "a text in quotes"),
        ("`bool`", "true or false"),
        ("Invalid RFC3339 encoded datetime", "this is no time"),
    ):
        what = what.replace(word, plain)
    return what[0].lower() + what[1:]


def _parts(path: str) -> list[tuple[str, int | None]]:
    """The keys of a decoder's path with the number, from 0, of those that are lists."""
    found = re.findall(r"([\w-]+)(?:\[(\d+|\.\.\.)\])?", path)
    return [(key, int(index) if index.isdigit() else None) for key, index in found]


def _table_of(path: str, tables: Tables) -> str:
    named = [key for key, _ in _parts(path) if key in tables]
    return named[-1] if named else ""


def _where(path: str) -> str:
    """A table as its author finds it: [late], [[due]] 2."""
    words = []
    for key, index in _parts(path):
        words.append(f"[[{key}]] {index + 1}" if index is not None else f"[{key}]")
    return " in ".join(reversed(words))


def _key_and_table(path: str) -> tuple[str, str]:
    parts = _parts(path)
    # A table in a wrong shape is named as a key, the members of a list of texts by the list.
    key = parts[-1][0] if parts else ""
    is_step = len(parts) > 1 and parts[-2][0] == "steps"
    table = path.rsplit(".", 1)[0] if "." in path else ""
    return key, ("steps" if is_step else _where(table)) if table else ""
