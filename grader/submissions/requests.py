"""A student's request to look at an exercise again, as a text file beside the work: `glu.request.txt`.

It is a stranger's text: read up to a bound, and kept as one line without control characters.
"""

from __future__ import annotations

import re

from grader.course.manifest import Course
from grader.text import clean

MOST_CHARACTERS = 2000
# As UTF-8 has them at most.
MOST_BYTES = 4 * MOST_CHARACTERS
# The copies are those of Canvas and of browsers, as for exercises.
_NAME = re.compile(
    r"(?P<exercise>[a-z0-9_]+)\.request(?:-\d{1,3}| ?\(\d{1,3}\))?\.(?:txt|md)", re.IGNORECASE
)


def requested(course: Course, name: str) -> str | None:
    """The exercise that a file of this name asks about; None where it is no request."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    asked = match["exercise"].lower()
    return asked if any(exercise.id == asked for exercise in course.exercises) else None


def message_of(text: str) -> str:
    """A message as it is kept: one line, bounded, with invisible characters escaped; empty for a blank one."""
    return clean(" ".join(text[: 8 * MOST_CHARACTERS].split()), MOST_CHARACTERS)
