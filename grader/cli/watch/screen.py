"""The screen of `grade watch`: a view drawn in place on a terminal, one below another elsewhere."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec
from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import (
    cut,
    hang,
    height_of,
    is_plain,
    marks_for,
    print_lines,
    whole_words,
)
from grader.cli.terminal.course import exercise_lines, hint_lines
from grader.cli.terminal.result import Panel
from grader.course.manifest import Exercise
from grader.results import ExerciseResult
from grader.student.blocks import FIRST_FINDINGS
from grader.student.next_step import Guide
from grader.student.workspace import Workspace
from grader.text import clean, counted

_LONGEST_LINE = 1000
# Rows that are never cut: the progress at the end of a list, and the first lines of a hint or note.
_END_OF_LIST, _LEAST_ADDED = 2, 4


class Shows(enum.Enum):
    """The kinds of content of the screen."""

    EXERCISE = "exercise"
    LIST = "list"
    ALL = "all"


class View(msgspec.Struct, frozen=True):
    """The content of the screen: results of one exercise or of all, a hint by its number, notes, a status.

    While something is `judging`, the results are the last ones. They are `served` if a server judged, by all
    tests. A scrolled view is shown in full, from its line `top` on.
    """

    exercise: Exercise
    shows: Shows = Shows.EXERCISE
    results: tuple[ExerciseResult, ...] = ()
    hint: int | None = None
    notes: str = ""
    status: str = ""
    judging: bool = False
    served: bool = False
    top: int = 0


class Face(Protocol):
    """A screen, or a stand-in for one."""

    def draw(self, view: View) -> None:
        """Show all of it."""

    def status(self, text: str) -> None:
        """Change only the status."""

    def scrolled(self, view: View, pages: int) -> int:
        """Return the top line of a view after scrolling by this many pages, down or up."""


class Screen:
    """The screen of `grade watch`: redrawn in place on a terminal, one panel below another elsewhere.

    `keys` are listed with their words.
    """

    def __init__(
        self, console: Console, workspace: Workspace, guide: Guide, keys: dict[str, str]
    ) -> None:
        self._console, self._workspace, self._guide = console, workspace, guide
        self._keys = keys
        self._in_place = not is_plain(console)
        self._is_dimmed = False
        if self._in_place:
            # Earlier content of the screen scrolls up and stays; from here on only the screen is cleared.
            self._write("\n" * console.height)

    def close(self) -> None:
        """Leave the last picture, with the shell's prompt below it."""
        if self._in_place:
            self._write("\n")

    def draw(self, view: View) -> None:
        """Show a view, replacing the last one."""
        if not self._in_place:
            self._append(view)
            return
        self._is_dimmed = view.judging and bool(view.results) and view.shows is not Shows.LIST
        footer = [*self._offer(), self._status(view.status)]
        body = self._fitting(view, self._rows())
        with self._console.capture() as captured:
            print_lines(self._console, [*body, Text(), *footer])
        # Home, then erase below, which keeps the scrollback, unlike "erase all and scroll".
        self._write("\x1b[H\x1b[J" + captured.get().rstrip("\n"))

    def status(self, text: str) -> None:
        """Show another status in the last line of the screen."""
        if self._in_place:
            with self._console.capture() as captured:
                self._console.print(self._status(text), end="", soft_wrap=True)
            self._write("\r\x1b[K" + captured.get())
        elif self._keys and not text.startswith("judging"):
            # The answer to a key. Without a terminal there are none.
            print_lines(self._console, [self._status(text)])
            self._console.file.flush()

    def scrolled(self, view: View, pages: int) -> int:
        """Return the top line after scrolling by this many pages; unchanged if everything is visible."""
        rows = self._rows()
        lines = self._whole(view)
        if not self._in_place or height_of(self._console, lines) <= rows:
            return 0
        # One line stays for orientation, and one counts the lines above and below.
        last = next(
            top for top in range(len(lines)) if height_of(self._console, lines[top:]) < rows
        )
        return max(0, min(view.top + pages * max(rows - 2, 1), last))

    def _append(self, view: View) -> None:
        """Write a view without redrawing: a result only once it is final."""
        if view.judging and not self._keys:
            return
        lines: list[Text] = []
        if not view.judging or view.shows is Shows.LIST:
            lines += self._main(view, FIRST_FINDINGS)
        if not view.judging:
            lines += [*self._added(view), *(self._offer() if self._keys else ())]
        print_lines(self._console, [*lines, self._status(view.status), Text()])
        self._console.file.flush()

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()

    # --- the body -------------------------------------------------------------------------------

    def _rows(self) -> int:
        """Return the rows for the body, above an empty one, the keys and the status."""
        return self._console.height - len(list(self._offer())) - 2

    def _whole(self, view: View) -> list[Text]:
        """Return all lines of the body."""
        return [*self._main(view, FIRST_FINDINGS), *self._added(view)]

    def _from(self, lines: list[Text], top: int, rows: int) -> list[Text]:
        """Return the lines from `top` that fit into the rows, and count the others."""
        shown = lines[top:]
        while len(shown) > 1 and height_of(self._console, shown) >= rows:
            shown.pop()
        above, below = top, len(lines) - top - len(shown)
        return [*shown, Text(f"  ({counted(above, 'line')} above, {below} below: k, j)", "dim")]

    def _fitting(self, view: View, rows: int) -> list[Text]:
        """Return the body in at most `rows` rows: with fewer findings, then only problems, then cut.

        A scrolled view is the full body, from another line on.
        """
        if view.top and height_of(self._console, whole := self._whole(view)) > rows:
            return self._from(whole, min(view.top, len(whole) - 1), rows)
        added = list(self._added(view))
        for shown in range(FIRST_FINDINGS, 0, -1):
            main = list(self._main(view, shown))
            if height_of(self._console, [*main, *added]) <= rows:
                return [*main, *added]
        if view.shows is Shows.LIST or not view.results:
            top, end = main[:-_END_OF_LIST], main[-_END_OF_LIST:]
        else:
            top, end = (list(self._dimmed(lines)) for lines in self._panel(view).brief())
        # Problems stay whole if possible, with as much of a hint as fits.
        top = self._cut(top, rows - height_of(self._console, [*end, *added[:_LEAST_ADDED]]))
        return [*top, *end, *self._cut(added, rows - height_of(self._console, [*top, *end]))]

    def _main(self, view: View, shown: int) -> Iterator[Text]:
        """Return the list, the panel with `shown` findings, or the exercise being judged for the first time."""
        if view.shows is Shows.LIST:
            yield from exercise_lines(self._console, self._workspace, opened=view.exercise.chapter)
        elif view.results:
            yield from self._dimmed(self._panel(view).lines(shown=shown))
        else:
            yield from whole_words(self._console, self._guide.course.title, "bold")
            yield Text()
            yield from hang(self._console, f"  {view.exercise.id}  ", view.exercise.title)

    def _panel(self, view: View) -> Panel:
        standings = self._workspace.standings()
        guide = msgspec.structs.replace(self._guide, standings=standings, by_all_tests=view.served)
        return Panel(self._console, view.results, guide)

    def _dimmed(self, lines: Iterable[Text]) -> Iterator[Text]:
        """Dim a verdict while a newer one is on its way."""
        return (Text(line.plain, "dim") if self._is_dimmed else line for line in lines)

    def _added(self, view: View) -> Iterator[Text]:
        """Return the hint and the notes that a key brought."""
        if view.hint is not None:
            yield Text()
            yield from hint_lines(self._console, view.exercise, view.hint, "")
        for line in view.notes.splitlines():
            yield from hang(self._console, "", clean(line, _LONGEST_LINE))

    def _cut(self, lines: list[Text], rows: int) -> list[Text]:
        """Return the lines that fit into the rows, and count the others."""
        shown = list(lines)
        if height_of(self._console, shown) <= rows:
            return shown
        while shown and height_of(self._console, shown) >= rows:
            shown.pop()
        more = counted(len(lines) - len(shown), "more line")
        return [*shown, Text(f"  ({more}: {'j' if self._keys else 'in a taller window'})", "dim")]

    # --- below it -------------------------------------------------------------------------------

    def _offer(self) -> Iterator[Text]:
        """Return the keys; in a narrow window, on more than one line."""
        line = Text()
        for key, meaning in self._keys.items():
            offer = Text.assemble((key, "bold"), " ", (meaning, "dim"))
            if line and line.cell_len + 2 + offer.cell_len > self._console.width:
                yield line
                line = Text()
            line = Text.assemble(line, "  " if line else "", offer)
        yield line

    def _status(self, status: str) -> Text:
        is_judging = status.startswith("judging")
        if self._is_dimmed and is_judging:
            status += "  (above: the last result)"
        line = cut(status, self._console.width - 1, marks_for(self._console))
        line.stylize("yellow" if is_judging else "dim")
        return line
