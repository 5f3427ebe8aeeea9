"""What does not hold as lines that an editor reads: `file:line:column: error: message`.

`grade run --errors` prints them alone, `grade watch --errors` between a line that begins and one that ends.

The words are those of the panel, each finding once. The form is that of GNU tools, which Vim, Emacs and the
problem matcher of a release know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from grader.results import ExerciseResult, Outcome, Place, Status
from grader.student.advice import Guide
from grader.student.blocks import Message, Section, Where, summarized
from grader.submissions.folder import Unreadable, open_regular
from grader.submissions.submission import MAX_FILE_BYTES
from grader.text import clean

if TYPE_CHECKING:
    from grader.cli.watch.screen import View
    from grader.student.workspace import Workspace

_LONGEST_LINE = 1000
_JUDGING = "judging "


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


class ErrorLines:
    """A face of the watching for a program: `grade: judging glu`, an error a line, `grade: judged glu`.

    The two lines are what the background task of a release waits for.
    """

    def __init__(self, workspace: Workspace, guide: Guide) -> None:
        self._workspace, self._guide = workspace, guide
        self._begun = ""
        self._last: View | None = None

    def draw(self, view: View) -> None:
        """Print what a view that is final says of its exercise, once."""
        if view.status.startswith(_JUDGING):
            self.status(view.status)
        elif view != self._last:
            self._last = view
            self._begin(view.exercise.id)
            guide = msgspec.structs.replace(self._guide, standings=self._workspace.standings())
            for result in view.results:
                for line in error_lines(result, guide):
                    click.echo(line)
            for line in view.notes.splitlines():
                click.echo(clean(line, _LONGEST_LINE))
            self._begun = ""
            click.echo(f"grade: judged {view.exercise.id}")

    def status(self, text: str) -> None:
        """Print that an exercise is being judged, once."""
        if text.startswith(_JUDGING):
            self._begin(text.removeprefix(_JUDGING).partition(":")[0])

    def _begin(self, exercise_id: str) -> None:
        if self._begun != exercise_id:
            self._begun = exercise_id
            click.echo(f"grade: judging {exercise_id}")
