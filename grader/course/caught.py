"""Which tests catch each wrong answer of an exercise: a file that `grade verify --write` writes.

tests/wrong/<chapter>/<exercise>.caught.toml has a line for each wrong answer (`grader.course.mutants`), by id:

    # Written by `grade verify mean --write`: the tests that catch each wrong answer under every seed.
    divides_by_all = ["test_example", "test_mean_of_rows"]
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from grader.course.manifest import Course, Exercise
from grader.toml import TomlMistake, read_toml

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read_caught(course: Course, exercise: Exercise) -> dict[str, tuple[str, ...]]:
    """The names of the tests that catch each wrong answer, by its id; empty where the file is missing.

    Raises TomlMistake or UnicodeDecodeError.
    """
    path = course.caught(exercise)
    if not path.is_file():
        return {}
    return read_toml(path.read_text(encoding="utf-8"), dict[str, tuple[str, ...]])


def write_caught(
    course: Course, exercise: Exercise, caught: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Write the names of the tests that catch each wrong answer; returns the file's name if it changed."""
    path = course.caught(exercise)
    try:
        if read_caught(course, exercise) == {id_: tuple(caught[id_]) for id_ in caught}:
            return ()
    except (TomlMistake, UnicodeDecodeError):
        pass  # what cannot be read is written anew
    command = f"`grade verify {exercise.id} --write`"
    lines = [f"# Written by {command}: the tests that catch each wrong answer under every seed."]
    for id_ in sorted(caught):
        key = id_ if _BARE_KEY.fullmatch(id_) else json.dumps(id_)
        lines.append(f"{key} = {json.dumps(list(caught[id_]))}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return (course.name_of(path),)
