"""What a decoder says of a policy.toml that is wrong, in words for its author: the key, and what to write."""

from __future__ import annotations

import re

import msgspec

from grader.gradebook.rules import Due, Extension, Late, Rules, Step
from grader.text import nearest

# What to write, by key; of the keys of `steps` as a whole.
EXAMPLES = {
    "timezone": 'timezone = "Europe/Warsaw"',
    "attempts": 'attempts = "newest", "best" or "average"',
    "max_attempts": "max_attempts = 5",
    "most_submissions": "most_submissions = 20",
    "cool_down": 'cool_down = "2 minutes"',
    "late": "[late] with per_day = 10 below it",
    "grace": 'grace = "15 minutes"',
    "per_day": "per_day = 10, in per cent",
    "at_most": "at_most = 50, in per cent",
    "steps": 'steps = [{after = "0 hours", lose = 10}, {after = "3 days", lose = 50}]',
    "after": 'after = "3 days"',
    "lose": "lose = 50, in per cent",
    "closes": 'closes = "7 days"',
    "due": "[[due]] with at = 2026-10-12T23:59:00 below it",
    "at": "at = 2026-10-12T23:59:00",
    "exercises": 'exercises = ["strides", "relu"]',
    "chapters": 'chapters = ["tensors"]',
    "extension": '[[extension]] with student = "zoe" and by = "2 days" below it',
    "student": 'student = "zoe"',
    "students": 'students = ["zoe", "kim"]',
    "section": 'section = "B"',
    "until": "until = 2026-10-15T23:59:00",
    "by": 'by = "2 days"',
    "reason": 'reason = "ill"',
}
_TABLES: dict[str, type[msgspec.Struct]] = {
    "": Rules,
    "late": Late,
    "steps": Step,
    "due": Due,
    "extension": Extension,
}
_AT = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>.*)`")
_TOML_PLACE = re.compile(r"\(at line (\d+), column \d+\)")


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


def explained(error: str) -> str:
    """The decoder's words with the table and the key in the place of a path, and what to write."""
    found = _AT.search(error)
    what, path = (error[: found.start()], found["path"]) if found else (error, "")
    if (unknown := _UNKNOWN.fullmatch(what)) is not None:
        where = f" of {_where(path)}" if path else ""
        advice = _key_advice(unknown["key"], _table_of(path))
        return f"there is no key `{unknown['key']}`{where}. {advice}"
    if (missing := re.fullmatch(r"Object missing required field `(.*)`", what)) is not None:
        where = f"{_where(path)} " if path else ""
        return f"{where}needs `{missing[1]}`. Write {EXAMPLES[missing[1]]}."
    key, table = _key_and_table(path)
    of = f" of {table}" if table else ""
    example = f" Write {EXAMPLES[key]}." if key in EXAMPLES else ""
    return f"`{key}`{of}: {_plain(what)}.{example}"


def _key_advice(key: str, table: str) -> str:
    """Where an unknown key belongs, or which ones of its table may be meant."""
    elsewhere = [f"[{name}]" for name, kind in _TABLES.items() if key in kind.__struct_fields__]
    if elsewhere:
        return f"It belongs below {' or '.join(elsewhere).replace('[]', 'no table')}."
    return nearest(key, sorted(_TABLES[table].__struct_fields__))


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
    found = re.findall(r"(\w+)(?:\[(\d+|\.\.\.)\])?", path)
    return [(key, int(index) if index.isdigit() else None) for key, index in found]


def _table_of(path: str) -> str:
    tables = [key for key, _ in _parts(path) if key in _TABLES]
    return tables[-1] if tables else ""


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
