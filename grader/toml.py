"""TOML that people write: read it into structs, explain its mistakes in plain words, and write tables.

The manifest, the assignments, the policy, corrections, rubrics and wrong answers are decoded by msgspec.
Neither tomllib nor msgspec knows the line of a key, so `line_of` looks for it. Errors of msgspec name types and
paths; instead, the author of a course reads the exercise and its key (`read_course_file`), and a teacher the
table, the key and an example (`explained`).
"""

from __future__ import annotations

import datetime
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from grader.errors import CourseError, GraderError
from grader.text import nearest

T = TypeVar("T")
_Path = tuple[str | int, ...]
# The struct of each table by its name; that of the whole file has an empty name.
Tables = Mapping[str, type[msgspec.Struct]]

_IDENTIFIER = r"^[a-z][a-z0-9_]*$"
_QUALIFIED_NAME = r"^[^\W\d]\w*(\.[^\W\d]\w*)*$"
_PATTERNS = {
    _IDENTIFIER: "a small letter, then small letters, digits and _",
    _QUALIFIED_NAME: "the name of a function or class, as forward or GatedLinearUnit.forward",
}
# Types of keys.
Text = Annotated[str, msgspec.Meta(min_length=1)]
Identifier = Annotated[str, msgspec.Meta(pattern=_IDENTIFIER, max_length=60)]
QualifiedName = Annotated[str, msgspec.Meta(pattern=_QUALIFIED_NAME)]

# How messages of msgspec and tomllib end: with the place where they stopped.
_AT = re.compile(r" - at (`key` in )?`\$\.?(?P<path>[^`]*)`$")
_AT_LINE = re.compile(r" \(at line (?P<line>\d+), column \d+\)")
_AT_TABLE = re.compile(r"(?P<table>exercise|assignment)\[(?P<number>\d+)\]\.?(?P<key>.*)")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>.*)`")
_MISSING = re.compile(r"Object missing required field `(?P<key>.*)`")
_NO_TIME = "Invalid RFC3339 encoded datetime"
_PLAIN_WORDS = {
    " | null": "",
    "`datetime`": "a time",
    "`date`": "a date without a time",
    "`time`": "a time without a date",
    "`array`": "a list",
    "`object`": "a table",
    "`float`": "a number",
    "`int`": "a whole number",
    "`str`": "a text in quotes",
    "`bool`": "true or false",
    _NO_TIME: "this is no time",
}

_HEADER = re.compile(r"\s*(?P<open>\[\[?)(?P<names>[^\]]+)\]")
_KEY = re.compile(r"\s*(?P<names>[\w\"'.-]+(\s*\.\s*[\w\"'-]+)*)\s*=")
_QUOTES = re.compile(r"'''|\"\"\"")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 100


class TomlMistake(ValueError):
    """A mistake in a TOML text: `reason` in the parser's or decoder's words, `line` from 1 (0: unknown).

    `path` names the key or table, as `exercise[2].points`; it is empty for the file as a whole, and for text
    that is not TOML.
    """

    def __init__(self, reason: str, path: str, line: int) -> None:
        super().__init__(reason)
        self.reason, self.path, self.line = reason, path, line

    @property
    def place(self) -> str:
        """The text after the file's name in a message: ", line 12"."""
        return f", line {self.line}" if self.line else ""


# --- reading --------------------------------------------------------------------------------------


def read_toml(text: str, kind: type[T], *, dec_hook: Callable[[type, Any], Any] | None = None) -> T:
    """Read a TOML text as a struct; raises TomlMistake."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
        at = _AT_LINE.search(reason)
        raise TomlMistake(_AT_LINE.sub("", reason), "", int(at["line"]) if at else 0) from error
    for path, what in _impossible(table):
        raise TomlMistake(what, path, line_of(text, path))
    return converted(table, kind, text, dec_hook=dec_hook)


def converted(
    table: object,
    kind: type[T],
    text: str = "",
    *,
    dec_hook: Callable[[type, Any], Any] | None = None,
) -> T:
    """Convert a TOML text's table to a struct; raises TomlMistake."""
    try:
        return msgspec.convert(table, kind, dec_hook=dec_hook)
    except msgspec.ValidationError as error:
        reason = str(error)
        at = _AT.search(reason)
        reason, path = (reason[: at.start()], at["path"]) if at else (reason, "")
        unknown = _UNKNOWN.fullmatch(reason)
        key = f"{path}.{unknown['key']}" if unknown else path
        raise TomlMistake(reason, path, line_of(text, key)) from error


def _impossible(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the paths of values that are impossible for every key, each with its problem."""
    match value:
        case dict():
            for key, item in value.items():
                yield from _impossible(item, f"{path}.{key}" if path else key)
        case list():
            for number, item in enumerate(value):
                yield from _impossible(item, f"{path}[{number}]")
        case float() if not math.isfinite(value):
            yield path, f"Expected a number, got {value}"
        case datetime.date() if not isinstance(value, datetime.datetime):
            yield path, f"Expected a time, as {value}T23:59:00, got a date without a time"


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
    """Yield the line of each header and key with its path; entries of arrays of tables count from 0."""
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


# --- mistakes, for the author of a course ---------------------------------------------------------


def read_course_file(file: Path, kind: type[T], page: str) -> T:
    """Read a file of a course as a struct; the page of docs/ explains its keys.

    Raises CourseError with the file, the line, the exercise or assignment, and the key.
    """
    advice = f"Compare with docs/{page}, where every key is explained."
    try:
        text = file.read_text(encoding="utf-8")
        return read_toml(text, kind)
    except (OSError, UnicodeDecodeError) as error:
        raise CourseError(f"{file}: {error}. {advice}") from error
    except TomlMistake as error:
        reason = sentence(_of_an_entry(error, text, kind))
        raise CourseError(f"{file}{error.place}: {reason} {advice}") from error


def _of_an_entry(mistake: TomlMistake, text: str, kind: type) -> str:
    """Return a decoder's message with the id instead of `exercise[0]`, and words for a pattern or an enum."""
    reason, meant = unknown_key(mistake.reason.rstrip("."), kind, mistake.path)
    if reason.startswith("Invalid enum value") and (choices := _choices(kind, mistake.path)):
        reason += f", not one of {', '.join(map(str, choices))}"
    reason = reason.replace(_NO_TIME, "this is not a time; write it as 2026-10-12T23:59:00")
    for pattern, words in _PATTERNS.items():
        reason = reason.replace(f"`str` matching regex {pattern!r}", words)
    if (at := _AT_TABLE.fullmatch(mistake.path)) is not None:
        table, number, key = at["table"], int(at["number"]), at["key"]
        name = _id_of(text, table, number) or f"number {number + 1}"
        return f"{reason} ({f'`{key}` of the ' if key else ''}{table} {name}){meant}"
    return (f"{reason} (`{mistake.path}`)" if mistake.path else reason) + meant


def sentence(text: str) -> str:
    """Return the text with a full stop, unless it already ends a sentence."""
    return text if text.endswith(("?", ".")) else f"{text}."


def unknown_key(reason: str, kind: type, path: str = "") -> tuple[str, str]:
    """Explain a decoder's message about an unknown key, and suggest the key that may be meant.

    Other messages are unchanged, without a suggestion. `path` leads from a struct of this kind to the one of
    the key.
    """
    if (unknown := _UNKNOWN.fullmatch(reason)) is None:
        return reason, ""
    structs = [t for t in _types_at(kind, path) if isinstance(t, msgspec.inspect.StructType)]
    keys = [field.encode_name for struct in structs for field in struct.fields]
    return f"there is no key `{unknown['key']}`", f". {nearest(unknown['key'], sorted(keys))}"


def _choices(kind: type, path: str) -> list[Any]:
    """Return the values of the enum at a decoder's path through structs and lists; empty if there is none."""
    types = _types_at(kind, path)
    enums = [t for t in types if isinstance(t, msgspec.inspect.EnumType)]
    literals = [t for t in types if isinstance(t, msgspec.inspect.LiteralType)]
    values = [member.value for enum in enums for member in enum.cls]
    return values + [value for literal in literals for value in literal.values]


def _types_at(kind: type, path: str) -> list[msgspec.inspect.Type]:
    """Return the types of a value at a decoder's path through structs and lists."""
    types = [msgspec.inspect.type_info(kind)]
    for key, _ in _parts(path):
        structs = [t for t in types if isinstance(t, msgspec.inspect.StructType)]
        fields = [field for struct in structs for field in struct.fields]
        types = [t for f in fields if f.encode_name == key for t in _alternatives(f.type)]
    return types


def _alternatives(kind: msgspec.inspect.Type) -> list[msgspec.inspect.Type]:
    """Return the types of a value, or of an item of a list."""
    if isinstance(kind, msgspec.inspect.UnionType):
        return [t for part in kind.types for t in _alternatives(part)]
    if isinstance(kind, msgspec.inspect.CollectionType):
        return _alternatives(kind.item_type)
    return [kind]


def _id_of(text: str, table: str, number: int) -> str:
    """Return the id of a table in a file that is not in order; empty if it has none."""
    try:
        return repr(tomllib.loads(text)[table][number]["id"])
    except (ValueError, LookupError, TypeError):
        return ""


# --- mistakes, for a teacher ----------------------------------------------------------------------


def explained(mistake: TomlMistake, text: str, tables: Tables, examples: Mapping[str, str]) -> str:
    """Explain the decoder's message with the table and the key instead of a path, and say what to write.

    `examples` has an example for each key.
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
    for word, plain in _PLAIN_WORDS.items():
        what = what.replace(word, plain)
    key, table = _key_and_table(path)
    of = f" of {table}" if table else ""
    example = f" Write {examples[key]}." if key in examples else ""
    return f"`{key}`{of}: {what[0].lower()}{what[1:]}.{example}"


def _no_toml(mistake: TomlMistake, text: str) -> str:
    """Return the parser's message with the text of the line, and how to write a time."""
    lines = text.splitlines()
    line = lines[mistake.line - 1].strip() if 0 < mistake.line <= len(lines) else ""
    advice = ""
    if re.search(r"\d{4}-\d\d?-\d\d?", line):
        advice = " A time has seconds and no quotes: 2026-10-12T23:59:00."
    return f"this is no TOML: {mistake.reason}{f', in `{line}`' if line else ''}.{advice}"


def _key_advice(key: str, table: str, tables: Tables) -> str:
    """Say where an unknown key belongs, or which keys of its table may be meant."""
    elsewhere = [f"[{name}]" for name, kind in tables.items() if key in kind.__struct_fields__]
    if elsewhere:
        return f"It belongs below {' or '.join(elsewhere).replace('[]', 'no table')}."
    return nearest(key, sorted(tables[table].__struct_fields__))


def _parts(path: str) -> list[tuple[str, int | None]]:
    """Split a decoder's path into keys; list entries have a number, from 0."""
    pairs = re.findall(r"([\w-]+)(?:\[(\d+|\.\.\.)\])?", path)
    return [(key, int(index) if index.isdigit() else None) for key, index in pairs]


def _table_of(path: str, tables: Tables) -> str:
    named = [key for key, _ in _parts(path) if key in tables]
    return named[-1] if named else ""


def _where(path: str) -> str:
    """Return a table's name as its author finds it: [late], [[due]] 2."""
    words = [
        f"[[{key}]] {index + 1}" if index is not None else f"[{key}]" for key, index in _parts(path)
    ]
    return " in ".join(reversed(words))


def _key_and_table(path: str) -> tuple[str, str]:
    parts = _parts(path)
    # A table of the wrong shape is named as a key, and items of a list of texts by the list.
    key = parts[-1][0] if parts else ""
    is_step = len(parts) > 1 and parts[-2][0] == "steps"
    table = path.rsplit(".", 1)[0] if "." in path else ""
    return key, ("steps" if is_step else _where(table)) if table else ""


# --- writing --------------------------------------------------------------------------------------


def written(table: Mapping[str, Any]) -> str:
    """Return a table as a TOML file: its values, then its arrays of tables, each under its header.

    Raises GraderError if reading it again would give something else.
    """
    text = "\n".join(_lines(table, "")) + "\n"
    if tomllib.loads(text) != table:
        raise GraderError("A file of the course could not be written anew as TOML.")
    return text


def _lines(table: Mapping[str, Any], name: str) -> Iterator[str]:
    tables = {key: value for key, value in table.items() if _is_tables(value)}
    for key, value in table.items():
        if key not in tables:
            yield f"{key if _BARE_KEY.fullmatch(key) else written_value(key)} = {written_value(value)}"
    for key, rows in tables.items():
        for row in rows:
            yield f"\n[[{name}{key}]]"
            yield from _lines(row, f"{name}{key}.")


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def written_value(value: Any) -> str:
    """Return a value as TOML after the `=`; a list too long for a line has a line for each item."""
    if isinstance(value, dict):
        pairs = [f"{written_value(key)} = {written_value(item)}" for key, item in value.items()]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, list):
        items = [written_value(item) for item in value]
        line = f"[{', '.join(items)}]"
        return line if len(line) <= _WIDTH else "[\n    " + ",\n    ".join(items) + ",\n]"
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    # A JSON string is a TOML string, except for this character, which TOML escapes.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
