"""What `grade watch --errors` prints: lines that an editor reads, between one that begins and one that ends."""

from __future__ import annotations

import click
import msgspec

from grader.cli.terminal.errors import error_lines
from grader.cli.watch.screen import View
from grader.student.advice import Guide
from grader.student.workspace import Workspace
from grader.text import clean

_LONGEST_LINE = 1000
_JUDGING = "judging "


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
