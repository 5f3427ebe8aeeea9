"""The tests that catch each wrong answer of an exercise: a file written by `grade verify --write`.

tests/wrong/<chapter>/<exercise>.caught.toml has a line for each set of tests, with the ids of the wrong answers
(`grader.course.mutants`) that exactly these tests catch:

    # Written by `grade verify mean --write`: tests, and the wrong answers that they catch under every seed.
    "test_example test_mean_of_rows" = ["divides_by_all", "loses_the_dimension"]
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from grader.course.manifest import Course, Exercise
from grader.toml import read_toml


def read_caught(course: Course, exercise: Exercise) -> dict[str, tuple[str, ...]]:
    """Read the names of the tests that catch each wrong answer, by its id; empty if the file is missing.

    Raises TomlMistake or UnicodeDecodeError.
    """
    path = course.caught(exercise)
    if not path.is_file():
        return {}
    ids_of = read_toml(path.read_text(encoding="utf-8"), dict[str, tuple[str, ...]])
    return {id_: tuple(tests.split()) for tests, ids in ids_of.items() for id_ in ids}


def write_caught(
    course: Course, exercise: Exercise, caught: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Write the names of the tests that catch each wrong answer; return the file's name if it changed."""
    command = f"`grade verify {exercise.id} --write`"
    ids_of: dict[str, list[str]] = {}
    for id_ in sorted(caught):
        ids_of.setdefault(" ".join(caught[id_]), []).append(id_)
    lines = [
        f"# Written by {command}: tests, and the wrong answers that they catch under every seed.",
        *(f"{json.dumps(tests)} = {json.dumps(ids_of[tests])}" for tests in sorted(ids_of)),
    ]
    text = "\n".join(lines) + "\n"
    path = course.caught(exercise)
    if path.is_file() and path.read_bytes() == text.encode():
        return ()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return (course.name_of(path),)
