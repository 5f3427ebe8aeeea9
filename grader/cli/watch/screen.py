"""The screen of `grade watch`: a view drawn in place on a terminal, one below the other elsewhere."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec
from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import cut, hang, is_plain, marks_for, print_lines
from grader.cli.terminal.course import exercise_lines, hint_lines
from grader.cli.terminal.result import panel
from grader.course.manifest import Exercise
from grader.results import ExerciseResult
from grader.student.advice import Guide
from grader.student.blocks import FIRST_FINDINGS
from grader.student.workspace import Workspace
from grader.text import clean

_LONGEST_LINE = 1000
# The progress and the next step, which stay when a body is cut.
_END = 3


class Screen:
    """The screen of `grade watch`: redrawn in place on a terminal, one panel below the other elsewhere.

    `keys` are offered with what they mean; `polling` says why the files are looked at all the time.
    """

    def __init__(
        self,
        console: Console,
        workspace: Workspace,
        guide: Guide,
        keys: dict[str, str],
        polling: Callable[[], str],
    ) -> None:
        self._console, self._workspace, self._guide = console, workspace, guide
        self._keys, self._polling = keys, polling
        self._in_place = not is_plain(console)
        if self._in_place:
            # What stands on the screen moves up and stays; from here on only the screen is cleared.
            self._write("\n" * console.height)

    def close(self) -> None:
        """Leave the last picture, and the shell's prompt below it."""
        if self._in_place:
            self._write("\n")

    def draw(self, view: View) -> None:
        """Show a view, in place of the last one."""
        if not self._in_place:
            self._append(view)
            return
        footer = [*self._offer(), self._status(view.status)]
        body = self._fitting(view, self._console.height - len(footer) - 1)
        with self._console.capture() as captured:
            print_lines(self._console, iter([*body, Text(), *footer]))
        # Home, and erase below: unlike "erase all and scroll", it leaves the scrollback alone.
        self._write("\x1b[H\x1b[J" + captured.get().rstrip("\n"))

    def status(self, text: str) -> None:
        """Show another status; it is the last line of the screen."""
        if self._in_place:
            with self._console.capture() as captured:
                self._console.print(self._status(text), end="", soft_wrap=True)
            self._write("\r\x1b[K" + captured.get())

    def _append(self, view: View) -> None:
        """Write a view where nothing can be taken back: only one that is final."""
        if not view.status.startswith("judging"):
            lines = [
                *self._main(view, FIRST_FINDINGS),
                *self._added(view),
                self._status(view.status),
                Text(),
            ]
            print_lines(self._console, iter(lines))
            self._console.file.flush()

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()

    def _main(self, view: View, shown: int) -> Iterator[Text]:
        """The list, or the panel with so many findings, or the exercise that is judged for the first time."""
        if view.shows is Shows.LIST:
            yield from exercise_lines(self._console, self._workspace, opened=view.exercise.chapter)
        elif view.results:
            guide = msgspec.structs.replace(self._guide, standings=self._workspace.standings())
            yield from panel(self._console, view.results, guide, shown=shown)
        else:
            yield Text(self._guide.course.title, "bold")
            yield from (Text(), Text(f"  {view.exercise.id}  {view.exercise.title}"))

    def _added(self, view: View) -> Iterator[Text]:
        """The hint and the notes that a key brought."""
        if view.hint is not None:
            yield Text()
            yield from hint_lines(self._console, view.exercise, view.hint, "")
        for line in view.notes.splitlines():
            yield from hang(self._console, Text(), Text(clean(line, _LONGEST_LINE)))

    def _fitting(self, view: View, rows: int) -> list[Text]:
        """The body in at most so many rows: with fewer findings, and cut above its end if need be."""
        added = list(self._added(view))
        for shown in range(FIRST_FINDINGS, 0, -1):
            lines = [*self._main(view, shown), *added]
            if self._height(lines) <= rows:
                return lines
        end = lines[-_END - len(added) :]
        top = lines[: -len(end)]
        while top and self._height([*top, *end]) >= rows:
            top.pop()
        left = len(lines) - len(top) - len(end)
        return [*top, Text(f"  ({left} more lines in a taller window)", "dim"), *end]

    def _height(self, lines: list[Text]) -> int:
        """Rows of the terminal: a path that is longer than a row is not broken by us, but by it."""
        return sum(max(1, -(-line.cell_len // self._console.width)) for line in lines)

    def _offer(self) -> Iterator[Text]:
        """The keys; in a narrow window on more than one line."""
        line = Text()
        for key, meaning in self._keys.items():
            offer = Text.assemble((key, "bold"), " ", (meaning, "dim"))
            if line and line.cell_len + 2 + offer.cell_len > self._console.width:
                yield line
                line = Text()
            line = Text.assemble(line, "  " if line else "", offer)
        yield line

    def _status(self, status: str) -> Text:
        polling = self._polling()
        text = status + (f"  (looking for saves all the time: {polling})" if polling else "")
        line = cut(text, self._console.width - 1, marks_for(self._console))
        line.stylize("yellow" if status.startswith("judging") else "dim")
        return line


class Shows(enum.Enum):
    """The kinds of content of the screen."""

    EXERCISE = "exercise"
    LIST = "list"
    ALL = "all"


class View(msgspec.Struct, frozen=True):
    """The content of the screen: results of one exercise or of all, a hint by its number, notes, a status."""

    exercise: Exercise
    shows: Shows = Shows.EXERCISE
    results: tuple[ExerciseResult, ...] = ()
    hint: int | None = None
    notes: str = ""
    status: str = ""


class Face(Protocol):
    """A screen, or a stand-in for one."""

    def draw(self, view: View) -> None:
        """Show all of it."""

    def status(self, text: str) -> None:
        """Show that the status is this now; all else stays."""
