"""What does not hold as lines that an editor reads: `file:line:column: error: message`.

The words are those of the panel, each finding once. The form is that of GNU tools, which Vim, Emacs and the
problem matcher of a release know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.results import ExerciseResult, Outcome, Place, Status
from grader.student.advice import Guide
from grader.student.blocks import Message, Section, Where, summarized
from grader.submissions.folder import Unreadable, open_regular
from grader.submissions.submission import MAX_FILE_BYTES
from grader.text import clean

_LONGEST_LINE = 1000


def error_lines(exercise: ExerciseResult, guide: Guide) -> Iterator[str]:
    """A line for each finding of an exercise: none of one that is passed, not begun, or not judged.

    A part that is still to be written is a warning. What has no place in the file stands at line 1.
    """
    if exercise.untouched or exercise.status is Status.UNJUDGED:
        return
    if exercise.message:
        exercise = msgspec.structs.replace(exercise, message=guide.fault(exercise))
    lines: dict[tuple[str, Place | None], str] = {}
    for section in summarized(exercise).sections:
        messages = [block.text for block in section.blocks if isinstance(block, Message)]
        message = messages[0].partition("\n")[0] if messages else ""
        # A remark about the points has neither.
        if text := ": ".join(filter(None, [section.title, message])):
            place = next(
                (block.place for block in section.blocks if isinstance(block, Where)), None
            )
            line = _line(exercise, section, guide, place, text)
            # Two tests may tell the same mistake with other details.
            lines.setdefault((message or text, place), line)
    yield from lines.values()


def _line(
    exercise: ExerciseResult, section: Section, guide: Guide, place: Place | None, text: str
) -> str:
    file, line = guide.where(exercise.name), place.line if place is not None else 1
    is_part = section.test is not None and section.test.outcome is Outcome.NOT_IMPLEMENTED
    severity = "warning" if is_part else "error"
    return f"{file}:{line}:{_column(file, line)}: {severity}: {clean(text, _LONGEST_LINE)}"


def _column(file: str, line: int) -> int:
    """The column of a line's first word, which an editor underlines; 1 where that cannot be read."""
    if not file.endswith(".py"):
        return 1
    try:
        with open_regular(Path(file), file) as stream:
            lines = stream.read(MAX_FILE_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, Unreadable):
        return 1
    words = re.search(r"\S", lines[line - 1]) if line <= len(lines) else None
    return words.start() + 1 if words else 1
