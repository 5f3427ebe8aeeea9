"""Write which tests catch each wrong answer into the file that describes it; all else in it stays as it is."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.course.manifest import Course, Exercise
from grader.errors import CourseError

# As long as a line of an author's file may be; a longer list has a line for each test.
_LONGEST_LINE = 100
_ENTRY = re.compile(r"\[\[?\s*(\w+)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"(\w+)\s*=")
_HEADER = re.compile(r"(#\s*wrong:.+?\|\s*caught by:)(.+?)(\|.*)")


def write_caught_by(
    course: Course, exercise: Exercise, caught: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Write the tests that catch each wrong answer, by its id; returns the names of the files that changed.

    Comments, order and layout stay. Raises CourseError where a file is laid out in a way in which its lists
    are not found; nothing is written to it then.
    """
    files = [*course.variants(exercise, "wrong"), course.mutants(exercise)]
    changed = []
    for path in filter(Path.is_file, files):
        before = path.read_bytes()
        text = before.decode("utf-8").replace("\r\n", "\n")
        if path.suffix == ".toml":
            new = _with_lists(text, caught)
            if _read(new) != _expected(text, caught):
                raise CourseError(
                    f"{course.name_of(path)}: the lists of caught_by are not found in it. Write each key of an "
                    "entry on a line of its own, as `grade new` does."
                )
        else:
            new = _with_header(text, caught.get(path.stem, ()))
        if new != text:
            # An editor of Windows ends each line in two characters.
            ended = new.replace("\n", "\r\n") if b"\r\n" in before else new
            path.write_bytes(ended.encode())
            changed.append(course.name_of(path))
    return tuple(changed)


def _with_header(text: str, tests: Sequence[str]) -> str:
    first, end, rest = text.partition("\n")
    return _HEADER.sub(rf"\1 {', '.join(tests)} \3", first) + end + rest if tests else text


def _read(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _expected(text: str, caught: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What the file says once the lists are written."""
    file = tomllib.loads(text)
    for entry in file.get("wrong", []):
        if tests := caught.get(entry.get("id", "")):
            entry["caught_by"] = list(tests)
    return file


def _with_lists(text: str, caught: Mapping[str, Sequence[str]]) -> str:
    lines = text.split("\n")
    # From the end, so that the numbers of lines above stay what they are.
    for begin, end in reversed(_places(lines)):
        keys: dict[str, int] = {}
        for number in range(begin, end):
            if match := _KEY.match(lines[number]):
                keys.setdefault(match[1], number)
        if "id" not in keys or not (tests := caught.get(_value(lines[keys["id"]]))):
            continue
        if "caught_by" in keys:
            first = last = keys["caught_by"]
            while "]" not in lines[last] and last + 1 < end:
                last += 1
            if _read("\n".join(lines[first : last + 1])) != {"caught_by": list(tests)}:
                lines[first : last + 1] = _list(tests)
        else:
            lines.insert(keys["id"] + 1, "\n".join(_list(tests)))
    return "\n".join(lines)


def _value(line: str) -> str:
    """The value of `key = "value"`; empty for one of another kind."""
    return str(next(iter((_read(line) or {"": ""}).values())))


def _places(lines: Sequence[str]) -> list[tuple[int, int]]:
    """The first line and the end of each entry `[[wrong]]`."""
    heads = [(n, match[1]) for n, line in enumerate(lines) if (match := _ENTRY.match(line))]
    ends = [number for number, _ in heads[1:]] + [len(lines)]
    return [
        (number + 1, end)
        for (number, name), end in zip(heads, ends, strict=False)
        if name == "wrong"
    ]


def _list(tests: Sequence[str]) -> list[str]:
    quoted = [f'"{test}"' for test in tests]
    line = f"caught_by = [{', '.join(quoted)}]"
    if len(line) <= _LONGEST_LINE:
        return [line]
    return ["caught_by = [", *(f"    {test}," for test in quoted), "]"]
