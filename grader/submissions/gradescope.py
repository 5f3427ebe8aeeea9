"""Gradescope's `submission_metadata.yml`: the authors and the time of each folder.

The file has every result that Gradescope ever showed, and may have hundreds of megabytes. It is read as a
stream of events, and only names and times are kept. No object is built from it, and aliases are ignored.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from grader.results import StudentInfo
from grader.submissions.folder import Unreadable, normalized
from grader.submissions.member import Readable
from grader.text import utc

MAX_BYTES = 1 << 30
_MAX_DEPTH = 50
_MAX_SUBMISSIONS = 200_000
_LONGEST_VALUE = 1000
_WANTED = {
    (":submitters", ":name"),
    (":submitters", ":email"),
    (":submitters", ":sid"),
    (":created_at",),
}
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.\d+)? ?(Z|UTC|[+-]\d\d:?\d\d)?", re.ASCII
)


class Submission(msgspec.Struct, frozen=True):
    """A folder of the export: its authors, and its time of submission."""

    students: tuple[StudentInfo, ...]
    submitted_at: str = ""


class _LimitedFile:
    """A file that cannot be read beyond `MAX_BYTES`."""

    def __init__(self, file: Readable) -> None:
        self._file, self._left = file, MAX_BYTES

    def read(self, size: int = 1 << 16) -> bytes:
        data = self._file.read(min(size, 1 << 16))
        self._left -= len(data)
        if self._left < 0:
            raise Unreadable(f"is larger than {MAX_BYTES >> 20} MiB")
        return data


def read_metadata(file: Readable) -> dict[str, Submission]:
    """Read each folder's submission from the open file; raises Unreadable, with only the reason."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    submissions: dict[str, Submission] = {}
    records: dict[str, dict[int, dict[str, str]]] = {}
    try:
        # Read only events: nothing is resolved, constructed or repeated.
        for path, value in _values(yaml.parse(_LimitedFile(file), Loader=loader), yaml):
            keys = tuple(key for key in path[1:] if isinstance(key, str))
            if keys in _WANTED:
                index = next((key for key in path if isinstance(key, int)), -1)
                records.setdefault(path[0], {}).setdefault(index, {})[keys[-1]] = value
                if len(records) > _MAX_SUBMISSIONS:
                    raise Unreadable(f"names more than {_MAX_SUBMISSIONS:,} submissions")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise Unreadable(f"is not valid YAML{where}") from error
    for folder, people in records.items():
        own = people.pop(-1, {})
        students = tuple(filter(None, map(_student, people.values())))
        submissions[folder] = Submission(students, _in_utc(own.get(":created_at", "")))
    return submissions


def _values(events: Iterator[Any], yaml: Any) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield every scalar of a document with its path: keys of mappings, and indices of sequences."""
    # A level is [True, key or None] in a mapping, [False, index] in a sequence.
    levels: list[list[Any]] = []
    for event in events:
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            levels.append([is_mapping, None if is_mapping else 0])
            if len(levels) > _MAX_DEPTH:
                raise Unreadable("is nested too deeply")
            continue
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            levels.pop()
            _pass(levels)
        elif isinstance(event, (yaml.ScalarEvent, yaml.AliasEvent)):
            value = getattr(event, "value", "")[:_LONGEST_VALUE]
            if levels and levels[-1][0] and levels[-1][1] is None:
                levels[-1][1] = value
                continue
            # The path has the current key or index of each level; keys are scalars.
            yield tuple(key for _, key in levels), value
            _pass(levels)


def _pass(levels: list[list[Any]]) -> None:
    """Go on after a value, to another key or the next index."""
    if levels:
        is_mapping, key = levels[-1]
        levels[-1][1] = (None if key is not None else "") if is_mapping else key + 1


def _student(cells: dict[str, str]) -> StudentInfo | None:
    sid, email = normalized(cells.get(":sid", "")), normalized(cells.get(":email", ""))
    # YAML's notations of null.
    sid, email = ("" if cell in ("~", "null") else cell for cell in (sid, email))
    name = normalized(cells.get(":name", ""))
    if not (sid or email or name):
        return None
    ids = {"gradescope_sid": sid} if sid else {}
    return StudentInfo(id=sid or email or name, name=name, email=email, ids=ids)


def _in_utc(text: str) -> str:
    """Return a time in Ruby's form (`2026-01-02 03:04:05.678901000 Z`) in UTC, empty if it is invalid."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return ""
    date, clock, zone = match.groups()
    zone = "+00:00" if zone in (None, "Z", "UTC") else zone
    try:
        return utc(datetime.datetime.fromisoformat(f"{date}T{clock}{zone}"))
    except (ValueError, OverflowError):
        return ""
