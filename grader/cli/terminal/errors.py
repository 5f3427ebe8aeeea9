"""What does not hold as lines that an editor reads: `file:line:column: error: message`.

The words are those of the panel, each finding once. The form is that of GNU tools, which Vim, Emacs and the
problem matcher of a release know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.results import ExerciseResult, Outcome, Status
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
    found = (_line(exercise, section, guide) for section in summarized(exercise).sections)
    yield from dict.fromkeys(line for line in found if line)


def _line(exercise: ExerciseResult, section: Section, guide: Guide) -> str:
    messages = [
        block.text.partition("\n")[0] for block in section.blocks if isinstance(block, Message)
    ]
    text = ": ".join(filter(None, [section.title, *messages]))
    if not text:  # a remark about the points
        return ""
    place = next((block.place for block in section.blocks if isinstance(block, Where)), None)
    line = place.line if place is not None else 1
    file = guide.where(exercise.name)
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
