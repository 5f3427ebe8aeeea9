"""What is wrong in a TOML file that a teacher wrote, in plain words: the table, the key, what to write.

The policy and the corrections are decoded by msgspec, whose errors name types and paths.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

import msgspec

from grader.text import nearest
from grader.toml import TomlMistake

_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>.*)`")
_MISSING = re.compile(r"Object missing required field `(?P<key>.*)`")

Tables = Mapping[str, type[msgspec.Struct]]


def explained(mistake: TomlMistake, text: str, tables: Tables, examples: Mapping[str, str]) -> str:
    """The decoder's words with the table and the key in the place of a path, and what to write.

    `tables` has the struct of each table by its name, that of the whole file by an empty one; `examples`
    what to write, by key.
    """
    if isinstance(mistake.__cause__, tomllib.TOMLDecodeError):
        return _no_toml(mistake, text)
    what, path = mistake.reason, mistake.path
    if (unknown := _UNKNOWN.fullmatch(what)) is not None:
        where = f" of {_where(path)}" if path else ""
        advice = _key_advice(unknown["key"], _table_of(path, tables), tables)
        return f"there is no key `{unknown['key']}`{where}. {advice}"
    if (missing := _MISSING.fullmatch(what)) is not None:
        where = f"{_where(path)} " if path else ""
        return f"{where}needs `{missing['key']}`. Write {examples[missing['key']]}."
    key, table = _key_and_table(path)
    of = f" of {table}" if table else ""
    example = f" Write {examples[key]}." if key in examples else ""
    return f"`{key}`{of}: {_plain(what)}.{example}"


def _no_toml(mistake: TomlMistake, text: str) -> str:
    """The parser's words, with what stands in the line, and what a time needs."""
    lines = text.splitlines()
    line = lines[mistake.line - 1].strip() if 0 < mistake.line <= len(lines) else ""
    advice = ""
    if re.search(r"\d{4}-\d\d?-\d\d?", line):
        advice = " A time has seconds and no quotes: 2026-10-12T23:59:00."
    return f"this is no TOML: {mistake.reason}{f', in `{line}`' if line else ''}.{advice}"


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
