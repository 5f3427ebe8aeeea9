"""Reading a probe's report, of which nothing is believed before it was looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grader.judge.checks.comparison import field_names
from grader.judge.outcomes import CheckFailed
from grader.results import Cause
from grader.sandbox.wire.values import Record

UNREADABLE = "Your code gave an answer that cannot be read."


def entry(
    report: Any,
    *path: str | int,
    kind: type | tuple[type, ...] = object,
    count: int | None = None,
    names: Sequence[str] = (),
    told: str = UNREADABLE,
    **default: Any,
) -> Any:
    """An entry of what a probe or the student's code returned: `path` leads to it, key by key.

    It has to be there, of this `kind` and with `count` entries, else CheckFailed tells `told`; with
    `default=...` a missing one is that. Keys are those of a dict, the fields of a named tuple, or the
    positions of a list, which may also go by `names`. Where a tuple is of this kind, a named tuple is one.

        losses = entry(student.run("train"), "history", "losses", kind=list, count=3)
    """
    value, missing = report, False
    for key in path:
        value, missing = _step(value, key, names)
        if missing:
            break
    if missing and default:
        return default["default"]
    if isinstance(value, Record) and tuple in (kind if isinstance(kind, tuple) else (kind,)):
        value = tuple(value)
    of_count = count is None or (isinstance(value, (list, tuple, dict)) and len(value) == count)
    if missing or not isinstance(value, kind) or not of_count:
        raise CheckFailed(told, Cause.TYPE if told == UNREADABLE else Cause.MISTAKE)
    return value


def fields(report: Any, *names: str, told: str = UNREADABLE) -> list[Any]:
    """These entries of a report; a missing one fails the test."""
    return [entry(report, name, told=told) for name in names]


def _step(value: Any, key: str | int, names: Sequence[str]) -> tuple[Any, bool]:
    # Nearly always a dict, of which Python need not ask whether it is a Mapping.
    if type(value) is dict or isinstance(value, Mapping):
        return (value[key], False) if key in value else (None, True)
    if isinstance(value, Record) and key in (field_names(value) or ()):
        return value.fields[str(key)], False
    if isinstance(value, Record) and isinstance(key, int):
        value = tuple(value)
    if isinstance(value, (list, tuple)):
        if key in names and len(value) == len(names):
            key = names.index(str(key))
        if isinstance(key, int) and -len(value) <= key < len(value):
            return value[key], False
    return None, True
