"""A line of progress on stderr, if that is a terminal. It is erased at the end.

Rich is imported only when there is something to show. By then the judges are starting, so the import delays
nothing.
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
    """A line of progress that is erased at the end; nothing is printed if stderr is not a terminal.

    `timed` adds the rate per minute and the time left.
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
        """Begin to count up to `total`; returns False if nothing is shown."""
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
        """Count one more."""
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task)


def _new_progress(unit: str, *, timed: bool) -> rich.progress.Progress | None:
    """Make a line of rich's columns; None if stderr is too plain for one."""
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
        """The rate per minute."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed * 60:.0f}/min" if task.speed else "", "dim")

    console = open_console(sys.stderr)
    if is_plain(console):
        return None
    count = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn(unit, markup=False))
    times = (Rate(), TimeRemainingColumn()) if timed else ()
    text = TextColumn("{task.description}", markup=False, style="dim" if timed else "")
    # A text that changes constantly comes last, where it moves nothing.
    columns = (*count, *times, text) if timed else (text, *count)
    return Progress(SpinnerColumn(), *columns, console=console, transient=True)


def with_progress(book: Gradebook | AnonymousBook, text: str) -> Iterator[Entry]:
    """Iterate over the entries of a gradebook, with a progress line."""
    with ProgressBar("students", timed=True) as bar:
        bar.start(text, len(book.students()))
        for entry in book.entries():
            yield entry
            bar.advance()


class RunDisplay(ProgressBar, Progress):
    """The exercise being judged, and the number of its finished tests."""

    def __init__(self, exercises: Sequence[Exercise]) -> None:
        super().__init__("tests")
        self._exercises = exercises

    def begin(self, exercise: Exercise, tests: int) -> None:
        """Show the exercise; and import the modules that show the result while the judge imports torch."""
        import grader.cli.terminal.result  # noqa: F401  # only loaded here, used when the result is shown

        place = self._exercises.index(exercise) + 1
        self.start(f"{exercise.id} ({place} of {len(self._exercises)})", tests)

    def test(self, exercise: Exercise, result: TestResult) -> None:  # noqa: ARG002  # as inherited
        """Count one more test."""
        self.advance()


class VerifyDisplay(ProgressBar):
    """The exercise being proved, and the number of its judged modules."""

    def __init__(self, course: Course, seeds: int, *, write: bool = False) -> None:
        super().__init__("modules")
        self._lock = threading.Lock()
        self._course, self._seeds, self._write = course, seeds, write
        self._begun: list[str] = []

    def judged(self, exercise: Exercise, module: str) -> None:  # noqa: ARG002  # as verify calls it
        """Count one more module; several threads call this.

        The last modules of an exercise may end when the next one has begun; they are not counted.
        """
        with self._lock:
            if exercise.id in self._begun[:-1]:
                return
            if exercise.id not in self._begun:
                self._begun.append(exercise.id)
                from grader.course.mutants import wrong_answers

                # The stub once, the solution and the right answers under each seed, and the wrong answers.
                rights = len(self._course.rights(exercise))
                wrong = len(wrong_answers(self._course, exercise).answers)
                times = self._seeds if self._write else 1
                self.start(exercise.id, 1 + rights * self._seeds + wrong * times)
            self.advance()
