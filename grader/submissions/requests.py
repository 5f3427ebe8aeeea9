"""Requests to look at an exercise again, as a text file beside the work: `glu.request.txt`."""

from __future__ import annotations

import re

from grader.course.manifest import Course
from grader.text import clean

# The longest part of a message that is kept.
MAX_CHARACTERS = 2000
# With the names that Canvas and browsers give to copies, as for exercises.
_NAME = re.compile(
    r"(?P<exercise>[a-z0-9_]+)\.request(?:-\d{1,3}| ?\(\d{1,3}\))?\.(?:txt|md)", re.IGNORECASE
)


def requested(course: Course, name: str) -> str | None:
    """Return the exercise that a request file of this name asks about, None for another file."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    asked = match["exercise"].lower()
    return asked if any(exercise.id == asked for exercise in course.exercises) else None


def message_of(text: str) -> str:
    """Return a message in the form that is kept: one bounded line, with invisible characters escaped."""
    return clean(" ".join(text[: 8 * MAX_CHARACTERS].split()), MAX_CHARACTERS)
