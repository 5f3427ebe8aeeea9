"""Progress while a command works: a line on stderr, if that is a terminal, gone when it ends.

Nothing of rich is imported before there is something to show: by then the judges are on their way,
and what is imported here delays nothing.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Self

from grader.grading import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import rich.progress

    from grader.course.manifest import Course, Exercise
    from grader.gradebook import Gradebook
    from grader.gradebook.anonymous import AnonymousBook
    from grader.results import Entry, TestResult


class ProgressBar:
    """One line of progress that is erased at the end; nothing is printed if stderr is not a terminal.

    `timed` adds how many are done in a minute, and the time that is left.
    """

    def __init__(self, unit: str, *, timed: bool = False) -> None:
        self._unit, self._timed = unit, timed
        self._progress: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def start(self, text: str, total: int) -> bool:
        """Begin to count anew up to `total`; False where nothing is shown."""
        if self._progress is None and sys.stderr.isatty():
            self._progress = _new_progress(self._unit, timed=self._timed)
            if self._progress is not None:
                self._progress.start()
        if self._progress is None:
            return False
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(text, total=total)
        return True

    def describe(self, text: str) -> None:
        """Set the text beside the bar."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=text)

    def advance(self) -> None:
        """One more is done."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task)


def _new_progress(unit: str, *, timed: bool) -> rich.progress.Progress | None:
    """A line of rich's own columns; None where stderr is too plain for one."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    from grader.cli.terminal.console import is_plain, open_console

    class Rate(ProgressColumn):
        """The number done in a minute."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed * 60:.0f}/min" if task.speed else "", "dim")

    console = open_console(sys.stderr)
    if is_plain(console):
        return None
    count = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn(unit, markup=False))
    times = (Rate(), TimeRemainingColumn()) if timed else ()
    text = TextColumn("{task.description}", markup=False, style="dim" if timed else "")
    # A text that changes all the time stands at the end, where it moves nothing.
    columns = (*count, *times, text) if timed else (text, *count)
    return Progress(SpinnerColumn(), *columns, console=console, transient=True)


def with_progress(book: Gradebook | AnonymousBook, text: str) -> Iterator[Entry]:
    """The entries of a gradebook, with a line of how far the work on them is."""
    with ProgressBar("students", timed=True) as bar:
        bar.start(text, len(book.students()))
        for entry in book.entries():
            yield entry
            bar.advance()


class RunDisplay(ProgressBar, Progress):
    """The exercise that is judged, and the number of its tests that are done."""

    def __init__(self, exercises: Sequence[Exercise]) -> None:
        super().__init__("tests")
        self._exercises = exercises

    def begin(self, exercise: Exercise, tests: int) -> None:
        """Show the exercise; and load what shows the result while the judge loads torch."""
        import grader.cli.terminal.result  # noqa: F401  # only loaded here, used when the result is shown

        place = self._exercises.index(exercise) + 1
        self.start(f"{exercise.id} ({place} of {len(self._exercises)})", tests)

    def test(self, exercise: Exercise, result: TestResult) -> None:  # noqa: ARG002  # as inherited
        """One more test is done."""
        self.advance()


class VerifyDisplay(ProgressBar):
    """The exercise that is proved, and the number of its modules that are judged."""

    def __init__(self, course: Course, seeds: int, *, write: bool = False) -> None:
        super().__init__("modules")
        self._lock = threading.Lock()
        self._course, self._seeds, self._write = course, seeds, write
        self._exercise: Exercise | None = None

    def judged(self, exercise: Exercise, module: str) -> None:  # noqa: ARG002  # as verify calls it
        """One more module is judged, by one of several threads."""
        with self._lock:
            if exercise is not self._exercise:
                self._exercise = exercise
                from grader.course.mutants import wrong_answers

                # The stub once, the solution and the right answers under each seed, the wrong ones.
                rights = len(self._course.rights(exercise))
                wrong = len(wrong_answers(self._course, exercise).answers)
                times = self._seeds if self._write else 1
                self.start(exercise.id, 1 + rights * self._seeds + wrong * times)
            self.advance()
