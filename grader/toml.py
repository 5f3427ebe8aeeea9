"""TOML that people write: read it into structs, explain its mistakes in plain words, and write tables.

The manifest, the assignments, the policy, corrections, rubrics and wrong answers are decoded by msgspec.
Neither tomllib nor msgspec reports the line of a key, so `line_of` searches for it. Errors of msgspec name
types and paths; `explain_mistake` names the key, its table or exercise, and a remedy.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import msgspec

from grader.errors import CourseError, GraderError
from grader.text import nearest

T = TypeVar("T")
_Path = tuple[str | int, ...]

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

# The ends of messages from msgspec and tomllib, with the place of the error.
_AT = re.compile(r" - at (`key` in )?`\$\.?(?P<path>[^`]*)`$")
_AT_LINE = re.compile(r" \(at line (?P<line>\d+), column \d+\)")
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
    _NO_TIME: "this is not a time like 2026-10-12T23:59:00",
}

_Struct = msgspec.inspect.StructType
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
    for path, problem in _impossible(table):
        raise TomlMistake(problem, path, line_of(text, path))
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
    """Return the line, from 1, of a key or table, or else of the table around it; 0 if neither is found.

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


# --- mistakes -------------------------------------------------------------------------------------


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
        raise CourseError(
            f"{file}{error.place}: {explain_mistake(error, text, kind)} {advice}"
        ) from error


def explain_mistake(
    mistake: TomlMistake, text: str, kind: type, examples: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return a sentence on a mistake in a text of this kind, with the key, its table, and a remedy.

    `examples` has an example for each key. A table with an `id` is named by it.
    """
    if isinstance(mistake.__cause__, tomllib.TOMLDecodeError):
        return _no_toml(mistake, text)
    reason, path = mistake.reason.rstrip("."), mistake.path
    if (unknown := _UNKNOWN.fullmatch(reason)) is not None:
        where = f" of {_where(_parts(path), text)}" if path else ""
        advice = _key_advice(unknown["key"], kind, path, anywhere=bool(examples))
        return f"there is no key `{unknown['key']}`{where}. {advice}"
    if (missing := _MISSING.fullmatch(reason)) is not None:
        key, where = missing["key"], f"{_where(_parts(path), text)} " if path else ""
        return f"{where}needs `{key}`.{f' Write {examples[key]}.' if key in examples else ''}"
    key, table = _key_and_table(path, text)
    if reason.startswith("Invalid enum value") and key not in examples:
        reason += f", not one of {', '.join(map(str, _choices(kind, path)))}"
    for pattern, words in _PATTERNS.items():
        reason = reason.replace(f"`str` matching regex {pattern!r}", words)
    for word, plain in _PLAIN_WORDS.items():
        reason = reason.replace(word, plain)
    of = f" of {table}" if table else ""
    example = f" Write {examples[key]}." if key in examples else ""
    begin, reason = f"`{key}`{of}: " if key else "", reason[0].lower() + reason[1:]
    return f"{begin}{sentence(reason)}{example}"


def sentence(text: str) -> str:
    """Return the text with a full stop, unless it already ends a sentence."""
    return text if text.endswith(("?", ".")) else f"{text}."


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
        structs = [t for t in types if isinstance(t, _Struct)]
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
    """Return the id of a table in a file with mistakes, empty if it has none."""
    try:
        return repr(tomllib.loads(text)[table][number]["id"])
    except (ValueError, LookupError, TypeError):
        return ""


def _no_toml(mistake: TomlMistake, text: str) -> str:
    """Return the parser's message with the text of the line, and advice on times."""
    lines = text.splitlines()
    line = lines[mistake.line - 1].strip() if 0 < mistake.line <= len(lines) else ""
    advice = ""
    if re.search(r"\d{4}-\d\d?-\d\d?", line):
        advice = " A time has seconds and no quotes: 2026-10-12T23:59:00."
    return f"this is not TOML: {mistake.reason}{f', in `{line}`' if line else ''}.{advice}"


def _key_advice(key: str, kind: type, path: str, *, anywhere: bool) -> str:
    """Return advice on an unknown key: similar keys of its table, or with `anywhere` the table that has it."""
    tables = _tables_of(kind)
    elsewhere = [f"[{name}]" for name, keys in tables.items() if key in keys]
    if anywhere and elsewhere:
        return f"It belongs below {' or '.join(elsewhere).replace('[]', 'no table')}."
    here = [_keys(each) for each in _types_at(kind, path) if isinstance(each, _Struct)]
    return nearest(key, sorted({name for keys in here for name in keys}))


def _tables_of(kind: type) -> dict[str, list[str]]:
    """Return the keys of each table by its name; the keys outside of tables by an empty name."""
    tables: dict[str, list[str]] = {}
    waiting: list[tuple[str, msgspec.inspect.Type]] = [("", msgspec.inspect.type_info(kind))]
    while waiting:
        name, table = waiting.pop(0)
        if isinstance(table, _Struct) and name not in tables:
            tables[name] = _keys(table)
            waiting += [(f.encode_name, t) for f in table.fields for t in _alternatives(f.type)]
    return tables


def _keys(table: msgspec.inspect.StructType) -> list[str]:
    return [field.encode_name for field in table.fields]


def _parts(path: str) -> list[tuple[str, int | None]]:
    """Return the keys of a decoder's path, each with its number from 0 if it is a list."""
    pairs = re.findall(r"([\w-]+)(?:\[(\d+|\.\.\.)\])?", path)
    return [(key, int(index) if index.isdigit() else None) for key, index in pairs]


def _where(parts: Sequence[tuple[str, int | None]], text: str) -> str:
    """Return a table as its author finds it: [late], [[due]] 2, the exercise 'relu'."""
    words = []
    for key, index in parts:
        id_ = _id_of(text, key, index) if index is not None else ""
        numbered = f"the {key} {id_}" if id_ else f"[[{key}]] {(index or 0) + 1}"
        words.append(f"[{key}]" if index is None else numbered)
    return " in ".join(reversed(words))


def _key_and_table(path: str, text: str) -> tuple[str, str]:
    parts = _parts(path)
    # A table of the wrong shape is named as a key, and items of a list of texts by the list.
    key = parts[-1][0] if parts else ""
    is_step = len(parts) > 1 and parts[-2][0] == "steps"
    return key, "steps" if is_step else _where(parts[:-1], text)


# --- writing --------------------------------------------------------------------------------------


def to_toml(table: Mapping[str, Any]) -> str:
    """Return a table as a TOML file: its values, then its arrays of tables, each under its header.

    Raises GraderError if reading it again would give something else.
    """
    text = "\n".join(_lines(table, "")) + "\n"
    if tomllib.loads(text) != table:
        raise GraderError("A file of the course could not be rewritten as TOML.")
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
