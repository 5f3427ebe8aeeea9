"""Begin an assignment: a table of `assignments.toml`, with a seed that is drawn once and never shown."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Any

from grader.course.assignments import FILE, CourseAssignment, read_assignments
from grader.course.manifest import Course
from grader.errors import CourseError, GraderError
from grader.toml import written

# Larger than what a student would try, and short enough to be typed.
_SEEDS = 10**9
_HEAD = """\
# What is handed out together, when it is due, and what it counts: docs/instructors.md explains every key.
# It holds the seeds by which hidden tests draw their inputs: keep it from students.
"""


def new_assignment(
    course: Course, assignment_id: str, values: dict[str, Any], timezone: str = ""
) -> tuple[Path, CourseAssignment]:
    """Add an assignment of these keys to the course, and return its file and what was read from it.

    Without a `title` it is made from the id. A `timezone` stands at the top of a new file. Raises CourseError
    for what is not in order; then nothing is written.
    """
    path = course.folder / FILE
    before = path.read_text(encoding="utf-8") if path.is_file() else _begin(timezone)
    table = {
        "id": assignment_id,
        "title": values.get("title") or _title(assignment_id),
        **{key: value for key, value in values.items() if key != "title" and value},
        "seed": secrets.randbelow(_SEEDS),
    }
    draft = path.with_name(f".{FILE}.new")
    try:
        draft.write_text(
            before + "\n" + written({"assignment": [table]}).lstrip(), encoding="utf-8"
        )
        read = read_assignments(draft, {each.id: each.chapter for each in course.exercises})
        draft.replace(path)
    except CourseError as error:
        raise CourseError(str(error).replace(str(draft), str(path))) from error
    except OSError as error:
        raise GraderError(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        draft.unlink(missing_ok=True)
    return path, read.assignments[-1]


def _begin(timezone: str) -> str:
    return _HEAD + (f"\n{written({'timezone': timezone})}" if timezone else "")


def _title(assignment_id: str) -> str:
    """`week3` as `Week 3`."""
    return re.sub(r"(\D)(\d)", r"\1 \2", assignment_id.replace("_", " ")).capitalize()
