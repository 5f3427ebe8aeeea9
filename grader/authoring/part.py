"""A course with only some of its exercises, as files, to hand out or to grade an assignment."""

from __future__ import annotations

import contextlib
import datetime
import shutil
import tempfile
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from grader.course.assignments import FILE, FOLDER, CourseAssignment, released_table
from grader.course.manifest import MANIFEST, Course, ReleasedExercise, load_course
from grader.toml import to_toml


def released_manifests(course: Course) -> dict[str, str]:
    """Return the manifest with the keys that students may read, by name below the course's root.

    The exercises of an assignment are in a separate file, so that another assignment's can be beside it.
    """
    head, exercises = _manifest(course, ReleasedExercise.__struct_fields__)
    table = _file_of(course.assignments, [*map(released_table, course.assignments)])
    if course.assignment is None:
        texts = {f"exercises/{MANIFEST}": to_toml({**head, "exercise": exercises})}
        return texts | ({f"exercises/{FILE}": to_toml(table)} if course.assignments else {})
    part = f"exercises/{FOLDER}/{course.assignment.id}.toml"
    return {
        f"exercises/{MANIFEST}": to_toml(head),
        part: to_toml({**table, "exercise": exercises}),
    }


@contextlib.contextmanager
def extracted(course: Course, files: Mapping[str, bytes]) -> Iterator[Course]:
    """Yield a copy of these files of the course, in a temporary folder, with a manifest of only its exercises.

    Its assignments have the keys that judge, but no `policy`, which may name students.
    """
    head, exercises = _manifest(course)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
        shutil.rmtree(root / course.name_of(course.folder) / FOLDER, ignore_errors=True)
        manifest = root / course.name_of(course.folder / MANIFEST)
        manifest.write_text(to_toml({**head, "exercise": exercises}), encoding="utf-8")
        if course.assignments:
            tables = [*map(_staff_table, course.assignments)]
            text = to_toml(_file_of(course.assignments, tables))
            manifest.with_name(FILE).write_text(text, encoding="utf-8")
        yield load_course(manifest)


def extra_credit_file(course: Course) -> dict[str, bytes]:
    """Return a file of assignments, by name, with only the extra credit of the course; none if there is none.

    It goes where strangers' code runs: it has no seed and no rule, and one assignment with only the exercises
    of the course. If all of them are extra credit, they count for full marks there.
    """
    ids = [exercise.id for exercise in course.exercises]
    extra = [id_ for id_ in ids if id_ in course.extra_credit]
    if not extra or extra == ids:
        return {}
    # An id and a title that name nothing else in the course.
    first = next(a for a in course.assignments if a.extra_credit)
    table = {"id": first.id, "title": first.title, "exercises": ids, "extra_credit": extra}
    return {f"exercises/{FILE}": to_toml({"assignment": [table]}).encode()}


def is_whole(course: Course) -> bool:
    """Return whether the course has all of the exercises in its manifest."""
    return len(load_course(course.folder / MANIFEST).exercises) == len(course.exercises)


def _manifest(
    course: Course, keys: Collection[str] | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the head of the manifest, and the entries of the course's exercises with these keys, or with all.

    Prerequisites are limited to these exercises: one of another assignment may never be handed out.
    """
    head = tomllib.loads((course.folder / MANIFEST).read_text(encoding="utf-8"))
    entries = head.pop("exercise", [])
    for part in course.parts:
        entries += tomllib.loads(part.read_text(encoding="utf-8"))["exercise"]
    by_id = {entry["id"]: entry for entry in entries}
    ids = [exercise.id for exercise in course.exercises]
    for entry in by_id.values():
        if "prerequisites" in entry:
            entry["prerequisites"] = [id_ for id_ in entry["prerequisites"] if id_ in ids]
    return head, [
        {key: value for key, value in by_id[id_].items() if keys is None or key in keys}
        for id_ in ids
    ]


def _file_of(
    assignments: tuple[CourseAssignment, ...], tables: list[dict[str, Any]]
) -> dict[str, Any]:
    zones = [assignment.timezone for assignment in assignments if assignment.timezone]
    return ({"timezone": zones[0]} if zones else {}) | {"assignment": tables}


def _staff_table(assignment: CourseAssignment) -> dict[str, Any]:
    table = msgspec.to_builtins(
        msgspec.structs.replace(assignment, policy={}, timezone="", replaces=()),
        builtin_types=(datetime.datetime,),
    )
    return {name: _listed(value) for name, value in table.items()}


def _listed(value: Any) -> Any:
    """Return the value with lists for tuples, as TOML reads them."""
    if isinstance(value, dict):
        return {name: _listed(each) for name, each in value.items()}
    return list(value) if isinstance(value, tuple) else value
