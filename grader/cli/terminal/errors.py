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
from grader.student.blocks import Message, Where, summarized
from grader.submissions.folder import Unreadable, open_regular
from grader.submissions.submission import MAX_FILE_BYTES
from grader.text import clean

if TYPE_CHECKING:
    from grader.cli.watch.screen import View
    from grader.student.workspace import Workspace

_LONGEST_LINE = 1000


def error_lines(exercise: ExerciseResult, guide: Guide) -> Iterator[str]:
    """A line for each finding of an exercise: none of one that is passed, not begun, or not judged.

    A part that is still to be written is a warning. What has no place in the file stands at line 1.
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
        # A remark about the points has neither; and two tests may tell the same mistake with other details.
        if text and (message or text, place) not in told:
            told.add((message or text, place))
            is_part = section.test is not None and section.test.outcome is Outcome.NOT_IMPLEMENTED
            line = place.line if place is not None else 1
            yield (
                f"{file}:{line}:{_column(file, line)}: {'warning' if is_part else 'error'}: "
                f"{clean(text, _LONGEST_LINE)}"
            )


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
        """Print that an exercise is being judged, or what a view that is final says of it, each once."""
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
        """The top: there is no window."""
        return 0

    def status(self, text: str) -> None:
        """Print nothing: a program waits for the results."""
