"""Problems as lines that an editor reads: `file:line:column: error: message`.

`grade run --errors` prints only these, `grade watch --errors` prints a line before and after them.

It has the messages of the panel, each finding once. Vim, Emacs and the problem matcher of a release know
this form of GNU tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from grader.results import ExerciseResult, Outcome, Place, Status
from grader.student.blocks import Message, Where, summarized
from grader.student.next_step import Guide
from grader.submissions.folder import Unreadable, open_regular
from grader.submissions.submission import MAX_FILE_BYTES
from grader.text import clean

if TYPE_CHECKING:
    from grader.cli.watch.screen import View
    from grader.student.workspace import Workspace

_LONGEST_LINE = 1000


def error_lines(exercise: ExerciseResult, guide: Guide) -> Iterator[str]:
    """Yield a line for each finding of an exercise; none if it is passed, not begun, or not judged.

    An unwritten part is a warning. A finding without a place in the file is reported at line 1.
    """
    if exercise.untouched or exercise.status is Status.UNJUDGED:
        return
    if exercise.message:
        exercise = msgspec.structs.replace(exercise, message=guide.fault(exercise))
    file = guide.where(exercise.name)
    told: set[tuple[str, Place | None]] = set()
    for section in summarized(exercise).sections:
        message, place = "", None
        for block in section.blocks:
            match block:
                case Message(text):
                    message = message or text
                case Where(at):
                    place = place or at
        text = ": ".join(filter(None, [section.title, message]))
        # Skips remarks about points, and a mistake that another test reports with other details.
        if text and (message or text, place) not in told:
            told.add((message or text, place))
            is_part = section.test is not None and section.test.outcome is Outcome.NOT_IMPLEMENTED
            line = place.line if place is not None else 1
            yield (
                f"{file}:{line}:{_column(file, line)}: {'warning' if is_part else 'error'}: "
                f"{clean(text, _LONGEST_LINE)}"
            )


def _column(file: str, line: int) -> int:
    """Return the column of a line's first word, which an editor underlines; 1 if it cannot be read."""
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
    """A face of `grade watch` for programs: `grade: judging glu`, a line for each error, `grade: judged glu`.

    The background task of a release waits for the first and the last of these lines.
    """

    def __init__(self, workspace: Workspace, guide: Guide) -> None:
        self._workspace, self._guide = workspace, guide
        self._begun = ""
        self._last: View | None = None

    def draw(self, view: View) -> None:
        """Print that an exercise is being judged, or the errors of a final view, each once."""
        if view == self._last:
            return
        name = view.exercise.id
        if self._begun != name:
            self._begun = name
            click.echo(f"grade: judging {name}")
        if view.judging:
            return
        self._begun, self._last = "", view
        guide = msgspec.structs.replace(self._guide, standings=self._workspace.standings())
        for result in view.results:
            for line in error_lines(result, guide):
                click.echo(line)
        for line in view.notes.splitlines():
            click.echo(clean(line, _LONGEST_LINE))
        click.echo(f"grade: judged {name}")

    def scrolled(self, view: View, pages: int) -> int:  # noqa: ARG002  # as every face
        """Return the top line, 0, since there is no window to scroll."""
        return 0

    def status(self, text: str) -> None:
        """Print nothing: a program waits for the results."""
